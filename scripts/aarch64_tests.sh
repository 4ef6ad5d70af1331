#!/usr/bin/env bash
# Artefacts for AArch64, run under qemu-user: needs a build of the compiler, Debian's g++-aarch64-linux-gnu and qemu-user.
#   scripts/aarch64_tests.sh            all back-end tests of the ONNX package, and small networks
#   scripts/aarch64_tests.sh --sample   one of eight of these tests: what CI runs
# Ends with `N passed, N failed`. Without the cross compiler or the emulator: `0 passed, 0 failed, 1 not run`, exit code 77.
# Environment: TW_BUILD (default build/release), TW_PYTHON (with onnx and numpy; default python3), TW_MODELS_DIR (small
# networks with inputs; default: made in the build folder).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${TW_BUILD:-build/release} python=${TW_PYTHON:-python3} every=1
[ "${1:-}" != --sample ] || every=8
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" > /dev/null && continue
  echo "aarch64: not run: no $program (apt-get install g++-aarch64-linux-gnu qemu-user)"
  echo "0 passed, 0 failed, 1 not run"
  exit 77
done
bash scripts/fetch_aarch64.sh >&2
runtime=$build/aarch64
cmake -S . -B "$runtime" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DTW_COMPILER=OFF -DTW_CUDA=OFF \
  -DTW_PRECOMPILE=OFF -DCMAKE_BUILD_TYPE=Release -DTW_BLAKE3="$PWD/.third_party/aarch64/lib/libtw_blake3.a" > "$build/aarch64.log"
cmake --build "$runtime" >> "$build/aarch64.log"
models=${TW_MODELS_DIR:-$build/small_models}
"$python" scripts/make_models.py "$models" --skip-existing --inputs --small >> "$build/aarch64.log"
common=(--tilewright "$(find "$build/tools" -name tilewright -type f -perm -u+x | head -n 1)"
  --run "qemu-aarch64 -L /usr/aarch64-linux-gnu $runtime/tests/emulated/run_models" --native "$build/tests/emulated/run_models")
export TILEWRIGHT_NO_MEASURE=1 TILEWRIGHT_DB=/dev/null TILEWRIGHT_CACHE_DIR=
"$python" tests/emulated/emulated.py "${common[@]}" --nodes .third_party/onnx/data --every "$every" | tee "$build/aarch64_nodes.txt" || true
"$python" tests/emulated/emulated.py "${common[@]}" --models "$models" |
  tee "$build/aarch64_models.txt" || true
awk '/ passed, / { p += $1; f += $3 } END { printf "%d passed, %d failed\n", p, f; exit f > 0 || p == 0 }' \
  "$build"/aarch64_{nodes,models}.txt
