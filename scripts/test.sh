#!/usr/bin/env bash
# Sets everything up on a bare Debian 12 machine, builds (preset ci), and runs all tests and checkers.
# The last line is `N passed, N failed`: ctest tests and checkers together. Logs: build/ci/logs.
# Environment: TW_JOBS (build jobs; default: cores), TW_PYTHON (interpreter with onnx and numpy; default: .venv),
# TW_TEST_NVCC (compiles the templates; default: nvcc of PATH or /usr/local/cuda; without one those tests are not run).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/ci
logs=$build/logs
mkdir -p "$logs"
passed=0 failed=0 not_run=0
export TW_JOBS=${TW_JOBS:-$(nproc)}
export TW_MODELS_DIR=$build/models
export PYTHONDONTWRITEBYTECODE=1

finish() {
  local status=$?
  # Ended before all was counted: that is a failure too.
  if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
  [ "$not_run" = 0 ] || echo "$not_run not run (each says why in $logs/ctest.log or $logs/python-package.log)"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] || exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { echo "[$(date +%H:%M:%S)] $*"; }

# step NAME COMMAND...: what everything after it needs; its log is shown and the run ends when it fails.
step() {
  local name=$1
  shift
  say "$name"
  "$@" > "$logs/$name.log" 2>&1 && return
  say "$name FAILED:"
  tail -n 40 "$logs/$name.log"
  exit 1
}

# check NAME COMMAND...: counted as one test.
check() {
  local name=$1
  shift
  if "$@" > "$logs/$name.log" 2>&1; then
    passed=$((passed + 1))
    say "check $name passed"
  else
    failed=$((failed + 1))
    say "check $name FAILED:"
    tail -n 40 "$logs/$name.log"
  fi
}

run_ctest() {
  rm -f "$build/ctest.xml"
  ctest --test-dir "$build" -j2 --output-on-failure --output-junit "$build/ctest.xml" > "$logs/ctest.log" 2>&1 &
  local pid=$! ticks=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    [ $((ticks % 15)) != 0 ] || say "ctest: $(grep -cE '^ *[0-9]+/[0-9]+ Test' "$logs/ctest.log" || true) tests done"
  done
  wait "$pid" || true
  if [ ! -s "$build/ctest.xml" ]; then
    failed=$((failed + 1))
    say "ctest wrote no results:"
    tail -n 20 "$logs/ctest.log"
    return
  fi
  local p f n
  read -r p f n < <(python3 scripts/junit_counts.py "$build/ctest.xml")
  passed=$((passed + p)) failed=$((failed + f)) not_run=$((not_run + n))
  say "ctest: $p passed, $f failed, $n not run"
  if [ "$f" != 0 ]; then
    python3 scripts/junit_counts.py "$build/ctest.xml" --failed
  fi
}

# The Python package, from its wheels: scripts/python_tests.sh counts its tests itself.
run_python_tests() {
  local p f n
  if ! bash scripts/python_tests.sh "$build" > "$logs/python-package.log" 2>&1; then
    failed=$((failed + 1))
    say "check python-package FAILED:"
    tail -n 40 "$logs/python-package.log"
    return
  fi
  read -r p f n < <(tail -n 1 "$logs/python-package.log" | tr -cd '0-9 \n')
  passed=$((passed + p)) failed=$((failed + f)) not_run=$((not_run + n))
  say "python-package: $p passed, $f failed, $n not run"
  [ "$f" = 0 ] || grep -E '^(FAILED|ERROR)|error:' "$logs/python-package.log" || true
}

# Where there is an nvcc, templates are compiled with it; what it took once, with the same headers, is not compiled again.
find_nvcc() {
  local nvcc
  nvcc=${TW_TEST_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  [ -x "$nvcc" ] || return 0
  step cutlass bash scripts/fetch_cutlass.sh
  export TW_TEST_NVCC=$nvcc TW_TEST_COMPILED=$build/templates
  mkdir -p "$TW_TEST_COMPILED"
}

step packages bash scripts/install_packages.sh
step third-party bash scripts/fetch_third_party.sh
step python bash scripts/setup_python.sh
TW_PYTHON=$(tail -n 1 "$logs/python.log")
export TW_PYTHON
find_nvcc
step configure cmake --preset ci
step build cmake --build "$build" -j "$TW_JOBS"
step models "$TW_PYTHON" scripts/make_models.py "$TW_MODELS_DIR" --skip-existing --inputs
step models-small "$TW_PYTHON" scripts/make_models.py "$TW_MODELS_DIR" --skip-existing --inputs --small
step models-dynamic "$TW_PYTHON" scripts/make_models.py "$TW_MODELS_DIR" --skip-existing --inputs --small --dynamic
say "ctest"
run_ctest
check layers python3 scripts/check_layers.py
check costs python3 scripts/check_costs.py
check options python3 scripts/check_options.py
check sizes python3 scripts/check_sizes.py
check picture python3 scripts/draw_results.py --check
check format bash scripts/check_format.sh
check script-tests python3 -m unittest discover -s tests/scripts -p 'test_*.py'
check model-tests "$TW_PYTHON" -m unittest discover -s tests/models -p 'test_*.py'
check aarch64 env TW_BUILD="$build" TW_MODELS_DIR="$build/small" bash scripts/aarch64_tests.sh --sample
check bench-tests env TW_BUILD="$build" "$TW_PYTHON" -m unittest discover -s tests/bench -p 'test_*.py'
run_python_tests
