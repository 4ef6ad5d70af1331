#!/usr/bin/env bash
# Builds the unit test programs with sanitizers and runs them:
#   scripts/sanitize.sh asan     AddressSanitizer and UndefinedBehaviorSanitizer: all programs
#   scripts/sanitize.sh tsan     ThreadSanitizer: those that start threads
# The driver's hundred random models run ten at a time; the first two tens are enough here. Ends with exit code 1 when a
# program fails or a sanitizer reports anything. Environment: TW_JOBS (build jobs; default: cores).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-}
case $preset in
  asan | tsan) ;;
  *)
    echo "usage: scripts/sanitize.sh asan|tsan" >&2
    exit 2
    ;;
esac
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/scripts/tsan_suppressions.txt

targets=()
[ "$preset" = asan ] || targets=(--target test_runtime test_driver test_measure)
cmake --preset "$preset"
cmake --build "build/$preset" -j "${TW_JOBS:-$(nproc)}" "${targets[@]}"
mapfile -t programs < <(find "build/$preset/tests" -name 'test_*' -type f -perm -u+x | sort)
failed=()
for path in "${programs[@]}"; do
  program=$(basename "$path")
  filter='*'
  # GoogleTest's filters know no ranges: one pattern for each case that is left out.
  if [ "$program" = test_driver ]; then
    filter=-
    for i in 2 3 4 5 6 7 8 9; do filter+="Seeds/RandomModels.AgreeWithTheReference/$i:"; done
  fi
  echo "== $preset: $program"
  "$path" --gtest_brief=1 --gtest_filter="$filter" || failed+=("$program")
done
[ "${#programs[@]}" != 0 ] || failed+=("no program was built")
if [ "${#failed[@]}" != 0 ]; then
  echo "$preset: FAILED: ${failed[*]}"
  exit 1
fi
echo "$preset: clean"
