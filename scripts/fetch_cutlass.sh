#!/usr/bin/env bash
# Fetches CUTLASS's headers, pinned, into DIR (default: .third_party/cutlass): DIR/include. `tilewright templates build`
# needs them; nothing else does.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.third_party/cutlass}
version=4.2.0.0
if [ "$(cat "$dir/stamp" 2>/dev/null || true)" = "$version" ]; then
  echo "CUTLASS's headers are up to date in $dir"
  exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo "fetching CUTLASS's headers into $dir"
python3 -m pip download -q --no-deps --only-binary=:all: -d "$tmp" "nvidia-cutlass==$version"
python3 - "$tmp" <<'PY'
import glob, sys, zipfile
tmp = sys.argv[1]
with zipfile.ZipFile(glob.glob(f"{tmp}/*.whl")[0]) as z:
    folders = ("cutlass_library/source/include/", "cutlass_library/source/tools/util/include/")
    z.extractall(tmp, [n for n in z.namelist() if n.startswith(folders)])
PY
rm -rf "$dir"
mkdir -p "$dir"
mv "$tmp/cutlass_library/source/include" "$dir/include"
cp -r "$tmp/cutlass_library/source/tools/util/include/." "$dir/include/"  # strides of convolutions
echo "$version" > "$dir/stamp"
