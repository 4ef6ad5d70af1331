#!/usr/bin/env bash
# Makes the project's virtual environment .venv with scripts/requirements.txt, and onnxruntime when it can be had.
# Prints the interpreter's path as its last line. TW_PYTHON names an interpreter to use instead; then nothing is made.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${TW_PYTHON:-}" ]; then
  "$TW_PYTHON" -c 'import numpy, onnx'
  echo "$TW_PYTHON"
  exit 0
fi
python=$PWD/.venv/bin/python
wanted=$(cat scripts/requirements.txt scripts/requirements-peer.txt)
if [ -x "$python" ] && [ "$(cat .venv/stamp 2>/dev/null || true)" = "$wanted" ]; then
  echo "python: .venv is up to date" >&2
else
  echo "python: making .venv" >&2
  python3 -m venv .venv
  "$python" -m pip install -q --disable-pip-version-check --only-binary=:all: -r scripts/requirements.txt >&2
  if "$python" -m pip install -q --disable-pip-version-check --only-binary=:all: -r scripts/requirements-peer.txt >&2; then
    echo "$wanted" > .venv/stamp
  else
    echo "python: onnxruntime is not available here; going on without it" >&2
  fi
fi
echo "$python"
