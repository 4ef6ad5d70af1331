#!/usr/bin/env bash
# Makes .venv-bench with the peers that bench/requirements.txt pins (several GB, most of it torch) and prints its
# interpreter as the last line. TW_BENCH_VENV names another folder.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${TW_BENCH_VENV:-$PWD/.venv-bench}
wanted=$(cat bench/requirements.txt scripts/requirements.txt scripts/requirements-peer.txt)
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/stamp" 2>/dev/null || true)" = "$wanted" ]; then
  echo "bench: $venv is up to date" >&2
else
  echo "bench: making $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: -r bench/requirements.txt >&2
  echo "$wanted" > "$venv/stamp"
fi
echo "$venv/bin/python"
