#!/usr/bin/env bash
# From a bare Debian 12 machine to a compiled, verified and timed ResNet-50 (seeded weights).
# Installs packages, builds (preset release), compiles, verifies, benches, and, where onnxruntime can be installed,
# times it beside. Results stay in build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/quickstart
mkdir -p "$out"
started=$SECONDS
jobs=${TW_JOBS:-$(nproc)}
cores=$(nproc)
threads=1
[ "$cores" -lt 2 ] || threads=1,2

say() { echo; echo "== [$((SECONDS - started)) s] $*"; }
quiet() {  # quiet LOG COMMAND...: shows the log only when the command fails
  local log=$out/$1.log
  shift
  "$@" > "$log" 2>&1 || { tail -n 40 "$log"; echo "failed: $*   (log: $log)" >&2; exit 1; }
}
run() {
  echo "\$ $(basename "$1") ${*:2}"
  "$@"
}

say "Debian packages"
bash scripts/install_packages.sh
say "third-party inputs and Python environment"
bash scripts/fetch_third_party.sh
python=$(bash scripts/setup_python.sh | tail -n 1)
say "build (log: $out/build.log)"
quiet configure cmake --preset release -B "$out/build" -DTW_TESTS=OFF
quiet build cmake --build "$out/build" -j "$jobs"
tilewright=$(find "$out/build" -name tilewright -type f -executable -print -quit)
if [ -z "$tilewright" ]; then
  echo "the build has no program 'tilewright'" >&2
  exit 1
fi
say "ResNet-50 with seeded weights"
"$python" scripts/make_models.py "$out" --only resnet50 --skip-existing
cd "$out"
say "compile"
compile_start=$(date +%s.%N)
run "$tilewright" compile resnet50.onnx -o resnet50.tw
compile_seconds=$(python3 -c "import time; print(f'{time.time() - $compile_start:.1f}')")
say "verify against the f64 reference"
run "$tilewright" verify resnet50.onnx
say "bench"
run "$tilewright" bench resnet50.tw
say "beside onnxruntime"
peer="onnxruntime could not be installed here: not compared"
if "$python" -c 'import onnxruntime' 2>/dev/null; then
  "$python" "$root/bench/run.py" resnet50.onnx --engines tilewright,onnxruntime --tilewright "$tilewright" \
    --threads "$threads" --out "$out/bench" | tee peer.txt
  peer=$(grep '^resnet50 ' peer.txt || true)
fi
say "what happened"
cat <<EOF
ResNet-50 (1x3x224x224, f32): compiled in $compile_seconds s to $out/resnet50.tw ($(du -m resnet50.tw | cut -f1) MiB),
verified against the f64 reference, timed on $cores core(s) of: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs)
$peer
EOF
