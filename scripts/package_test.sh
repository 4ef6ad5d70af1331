#!/usr/bin/env bash
# Makes the Debian packages of a build and tries them in a Debian 12 root of their own: they install, the examples build
# with pkg-config, and the command, the compiler and the runtime do what they are for. Takes about five minutes, most of
# it for the root; needs root and mmdebstrap.
#   scripts/package_test.sh [BUILD]   BUILD: default build/ci; the packages stay in BUILD/packages
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source_dir/build/ci}" && pwd)
command -v mmdebstrap >/dev/null || { echo "not run: install mmdebstrap" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf "$build/packages"
(cd "$build" && cpack -G DEB -B "$build/packages" >"$work/cpack.log") || { cat "$work/cpack.log" >&2; exit 1; }
mkdir "$work/try"
cp "$build"/packages/*.deb "$work/try/"
cp -r "$source_dir/examples" "$work/try/"
python=${TW_PYTHON:-$source_dir/.venv/bin/python}
"$python" "$source_dir/scripts/make_models.py" "$work/try" --only mlp
cat >"$work/try/try.sh" <<'TRY'
set -euo pipefail
cd /try
apt-get install -y --no-install-recommends ./*.deb >/dev/null
tilewright compile mlp.onnx -o mlp.tw
tilewright verify mlp.tw | tail -1
gcc examples/run_c/*.c $(pkg-config --cflags --libs tilewright-rt) -o run_c
g++ -std=c++17 examples/compile_cpp/*.cpp $(pkg-config --cflags --libs tilewright-compiler tilewright-rt) -o compile_cpp
g++ -std=c++17 examples/train_cpp/*.cpp $(pkg-config --cflags --libs tilewright-rt) -o train_cpp
gcc examples/compile_c/*.c $(pkg-config --cflags --libs tilewright-compiler) -o compile_c
./run_c mlp.tw
./compile_c mlp.onnx mlp2.tw no-measure 2>/dev/null | grep -q '"warnings":\[\]'
./run_c mlp2.tw
./compile_cpp mlp.onnx
tilewright train mlp.onnx --loss mse -o mlp.train.tw
./train_cpp mlp.train.tw mlp.safetensors 20
TRY
mmdebstrap --variant=apt --include=gcc,g++,libc6-dev,pkgconf --format=null --quiet \
  --customize-hook="copy-in $work/try /" --customize-hook='chroot "$1" bash /try/try.sh' bookworm /dev/null
ls -l "$build"/packages/*.deb | awk '{ printf "%8.1f MB  %s\n", $5 / 1e6, $NF }'
echo "packages: installed and used in a clean root"
