#!/usr/bin/env bash
# The tests that need an NVIDIA GPU. Needs a build, and for memcheck and racecheck compute-sanitizer on the PATH.
#   scripts/gpu_tests.sh                  all steps; ends with `N passed, N failed, N not run`
#   scripts/gpu_tests.sh node racecheck   some of them: node operators portable command memcheck racecheck
#   scripts/gpu_tests.sh --pack FILE.tar.xz   what a machine without a build needs; there: tar xf FILE && bash gpu/gpu_tests.sh
#
#   node        the onnx package's back-end tests, against tests/onnx/not_passing*.txt
#   one-value   the same with one value for all inputs of one type, against the reference evaluator
#   operators   the operator suite of make_models.py as f32, f16 and bf16, each group and output against the f64 reference
#   portable    the same as compiled for cuda:sm_80: on a later GPU by what the driver makes of its PTX
#   command     the command's own tests on a GPU
#   memcheck, racecheck   the operator suite under compute-sanitizer
#
# Environment: TW_TARGET (default cuda:sm_90a), TW_BUILD (build folder; default build/release), TW_JOBS (default: cores),
# TW_OPERATORS (folder of the suite; default: made in the build folder), TW_ONNX_DATA (default .third_party/onnx/data),
# TW_LOGS (default: BUILD/gpu_tests), TW_PYTHON (with onnx and numpy, to make the suite; default python3), TW_NODE_LIMIT
# (seconds after which steps node and one-value begin no test any more, and fail).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -d "$here/bin" ]; then # unpacked
  root=$here build=$here/bin scripts=$here
  export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  TW_ONNX_DATA=${TW_ONNX_DATA:-$here/data} TW_OPERATORS=${TW_OPERATORS:-$here/operators}
else
  root=$(dirname "$here") scripts=$here
  build=${TW_BUILD:-$root/build/release}
fi
# Not those of an install inside of the build, as that of the wheels, which may be older.
find_program() { find "$build" -path "$build/python" -prune -o -name "$1" -type f -perm -u+x -print | head -n 1; }
tilewright=$(find_program tilewright)
node_tests=$(find_program node_tests)
target=${TW_TARGET:-cuda:sm_90a}
data=${TW_ONNX_DATA:-$root/.third_party/onnx/data}
operators=${TW_OPERATORS:-$build/gpu_operators}
logs=${TW_LOGS:-$build/gpu_tests}
jobs=${TW_JOBS:-$(nproc)}
passed=0 failed=0 not_run=0

[ -n "$tilewright" ] && [ -n "$node_tests" ] || { echo "no tilewright and node_tests in $build: build them first" >&2; exit 2; }

make_operators() {
  # Made again when its script is newer: models are added there.
  [ "$operators/models.json" -nt "$root/scripts/make_models.py" ] && return
  "${TW_PYTHON:-python3}" "$root/scripts/make_models.py" "$operators" --only --operator-suite --inputs > "$logs/models.log"
}

# Everything an unpacked folder needs besides the driver and NVRTC, without debug symbols. Of a build without LLVM (preset
# no-llvm) it is much smaller.
pack() {
  local folder
  staged=$(mktemp -d) # not local: the trap outlives this function
  trap 'rm -rf "$staged"' EXIT
  folder=$staged/gpu
  mkdir -p "$folder/bin" "$folder/lib" "$logs"
  make_operators
  strip -o "$folder/bin/tilewright" "$tilewright"
  strip -o "$folder/bin/node_tests" "$node_tests"
  ldd "$tilewright" "$node_tests" | awk '$3 ~ "^/" { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl)\.so' | xargs -I{} cp -L {} "$folder/lib"
  # For bench/run.py --tilewright gpu/bin/tilewright, with LD_LIBRARY_PATH=gpu/lib.
  cp -L "$build/runtime/libtilewright_rt.so" "$folder/lib"
  cp -rL "$data" "$folder/data"
  cp -r "$operators" "$folder/operators"
  mkdir "$folder/cli"
  cp "$root"/tests/cli/{command_test,onnx_bytes}.py "$folder/cli"
  cp "$root"/tests/onnx/not_passing*.txt "$0" "$folder"
  tar -C "$staged" -cf - gpu | xz -T0 -3 > "$1"
  echo "$1: $(($(stat -c %s "$1") / 1048576)) MiB"
}

count() { # NAME PASSED FAILED
  passed=$((passed + $2)) failed=$((failed + $3))
  echo "$1: $2 passed, $3 failed"
}

skip() { # NAME REASON
  not_run=$((not_run + 1))
  echo "$1: not run: $2"
}

# One command for each model of the suite and each type, in parallel; a command that fails is named with its last line.
check_one() { # NAME COMMAND...
  local name=$1 log=$step_logs/$1.log
  shift
  if "$@" > "$log" 2>&1; then echo "passed $name"; else echo "failed $name: $(tail -n 1 "$log")"; fi
}

verify_model() { # MODEL DTYPE
  check_one "$(basename "$1" .onnx).$2" "$tilewright" verify "$1" --input "${1%.onnx}.npz" --target "$target" --dtype "$2"
}

sanitize_model() { # MODEL DTYPE; what is compiled was kept by the step before, or is now
  local name artefact
  name=$(basename "$1" .onnx).$2
  artefact=$step_logs/$name.tw
  "$tilewright" compile "$1" -o "$artefact" --target "$target" --dtype "$2" > "$step_logs/$name.compile.log" 2>&1 ||
    { echo "failed $name: $(tail -n 1 "$step_logs/$name.compile.log")"; return; }
  check_one "$name" compute-sanitizer --tool "$step" --error-exitcode 99 "$tilewright" run "$artefact" --input "${1%.onnx}.npz"
  rm -f "$artefact"
}

over_suite() { # NAME FUNCTION
  export step=$1 step_logs=$logs/$1
  rm -rf "$step_logs"
  mkdir -p "$step_logs"
  for model in "$operators"/*.onnx; do
    for dtype in f32 f16 bf16; do printf '%s\0%s\0' "$model" "$dtype"; done
  done | xargs -0 -n 2 -P "$jobs" bash -c "$2"' "$@"' _ > "$logs/$1.txt"
  grep '^failed' "$logs/$1.txt" | sort || true
  count "$1 ($target, f32 f16 bf16)" "$(grep -c '^passed' "$logs/$1.txt" || true)" "$(grep -c '^failed' "$logs/$1.txt" || true)"
}

run_node() { # NAME OPTION..
  local name=$1 list code=0
  shift
  list=$(ls "$root"/not_passing_cuda.txt "$root"/tests/onnx/not_passing_cuda.txt "$root"/not_passing.txt \
    "$root"/tests/onnx/not_passing.txt 2> /dev/null | head -n 1 || true)
  "$node_tests" "$data" --backend compiled --target "$target" "$@" --jobs "$jobs" --list "$list" \
    --report "$logs/$name.txt" ${TW_NODE_LIMIT:+--time-limit "$TW_NODE_LIMIT"} > "$logs/$name.log" || code=$?
  [ "$code" != 77 ] || { skip "$name" "$(tail -n 1 "$logs/$name.log")"; return; }
  cat "$logs/$name.log"
  # Every test that is as the list says counts as passed.
  count "$name ($target, as the list says)" "$((code == 0))" "$((code != 0))"
}

run_command() {
  local folder=$root/tests/cli
  [ -d "$folder" ] || folder=$root/cli
  local code=0
  (cd "$folder" && TILEWRIGHT=$tilewright python3 -m unittest command_test.Artefacts.test_a_model_on_a_gpu \
    command_test.Artefacts.test_code_for_an_earlier_gpu command_test.State.test_a_state_on_a_gpu) > "$logs/command.log" 2>&1 || code=$?
  if grep -q skipped "$logs/command.log"; then
    skip command "$(tail -n 1 "$logs/command.log")"
  else
    [ "$code" = 0 ] || tail -n 20 "$logs/command.log"
    count command "$((code == 0))" "$((code != 0))"
  fi
}

run_sanitizer() { # TOOL
  if command -v compute-sanitizer > /dev/null; then over_suite "$1" sanitize_model; else skip "$1" "no compute-sanitizer"; fi
}

if [ "${1:-}" = --pack ]; then
  pack "$2"
  exit
fi
steps=("${@:-node}")
[ "$#" != 0 ] || steps=(node one-value operators portable command memcheck racecheck)
if ! nvidia-smi -L 2> /dev/null | grep -q GPU; then
  for name in "${steps[@]}"; do skip "$name" "no NVIDIA GPU"; done
  echo "$passed passed, $failed failed, $not_run not run"
  exit 77
fi
mkdir -p "$logs"
# Chosen by construction, equal every time; a model is compiled once for all steps.
export TILEWRIGHT_NO_MEASURE=1 TILEWRIGHT_DB=/dev/null TILEWRIGHT_CACHE_DIR=$logs/cache
export tilewright target logs
export -f check_one verify_model sanitize_model
make_operators
for name in "${steps[@]}"; do
  case $name in
    node) run_node node ;;
    one-value) run_node one-value --one-value ;;
    operators) over_suite operators verify_model ;;
    portable) target=cuda:sm_80 over_suite portable verify_model ;;
    command) run_command ;;
    memcheck | racecheck) run_sanitizer "$name" ;;
    *) echo "no step '$name'" >&2 && exit 2 ;;
  esac
done
echo "$passed passed, $failed failed, $not_run not run"
[ "$failed" = 0 ]
