#!/usr/bin/env bash
# Runs clang-tidy (naming and size rules of .clang-tidy) on the sources of src, runtime and tools.
#   scripts/check_tidy.sh BUILD_DIR            all sources that BUILD_DIR/compile_commands.json compiles
#   scripts/check_tidy.sh BUILD_DIR --changed  only those that differ from git's HEAD, or that HEAD lacks
#   scripts/check_tidy.sh BUILD_DIR FILE...    these
# Exit code: 0 no findings, 1 findings, 2 usage or a missing tool.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${1:-}
if [ -z "$build" ] || [ ! -f "$build/compile_commands.json" ]; then
  echo "usage: $0 BUILD_DIR [--changed | FILE...]   (BUILD_DIR holds compile_commands.json)" >&2
  exit 2
fi
shift
tidy=$(command -v clang-tidy-19 || command -v clang-tidy || true)
if [ -z "$tidy" ]; then
  echo "clang-tidy is not installed" >&2
  exit 2
fi

# Sources of this project that the build compiles, as paths from the root, one a line.
compiled() {
  python3 - "$build/compile_commands.json" "$root" <<'PY'
import json, os, sys
files = {os.path.relpath(os.path.join(c["directory"], c["file"]), sys.argv[2]) for c in json.load(open(sys.argv[1]))}
print("\n".join(sorted(f for f in files if f.split("/")[0] in ("src", "runtime", "tools"))))
PY
}
case "${1:-}" in
  "") files=$(compiled) ;;
  --changed)
    changed=$( (git diff --name-only HEAD 2>/dev/null || true; git ls-files --others --exclude-standard) | sort -u)
    files=$(comm -12 <(compiled | sort) <(echo "$changed")) ;;
  *) files=$(printf '%s\n' "$@") ;;
esac
if [ -z "$files" ]; then
  echo "tidy: 0 files"
  exit 0
fi
count=$(wc -l <<< "$files")
status=0
xargs -P "${TW_JOBS:-$(nproc)}" -n 1 "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option <<< "$files" 2>/dev/null || status=1
echo "tidy: $count files, $([ $status = 0 ] && echo 'no findings' || echo 'findings above')"
exit $status
