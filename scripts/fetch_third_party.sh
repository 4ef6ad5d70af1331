#!/usr/bin/env bash
# Fetches the pinned third-party inputs that are never committed, into DIR (default: .third_party):
#   onnx/onnx-ml.proto, onnx/data/   schema and back-end test data   (onnx wheel)
#   include/dlpack/dlpack.h          tensor ABI                      (apache-tvm-ffi wheel)
#   include/nvtx3/                   names for profilers of GPUs     (nvidia-nvtx wheel; Apache-2.0 WITH LLVM-exception)
#   include/llvm-c/blake3.h, lib/libtw_blake3.a                      (Debian's llvm-19-dev)
# Idempotent: a stamp names the pins; a complete folder is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.third_party}
onnx_version=1.22.0
ffi_version=0.1.15.post2
nvtx_version=13.0.85
stamp="onnx=$onnx_version ffi=$ffi_version nvtx=$nvtx_version blake3=llvm-19"
if [ "$(cat "$dir/stamp" 2>/dev/null || true)" = "$stamp" ]; then
  echo "third-party inputs are up to date in $dir"
  exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo "fetching third-party inputs into $dir"
python3 -m pip download -q --no-deps --only-binary=:all: -d "$tmp" "onnx==$onnx_version" "apache-tvm-ffi==$ffi_version" \
  "nvidia-nvtx==$nvtx_version"
rm -rf "$dir"
mkdir -p "$dir/onnx" "$dir/include/dlpack" "$dir/include/llvm-c" "$dir/lib"
python3 - "$tmp" "$dir" <<'PY'
import glob, os, sys, zipfile
tmp, out = sys.argv[1:3]
def take(pattern, prefix, dest):
    with zipfile.ZipFile(glob.glob(f"{tmp}/{pattern}")[0]) as z:
        for n in z.namelist():
            if n.startswith(prefix) and not n.endswith("/"):
                path = os.path.join(dest, os.path.relpath(n, os.path.dirname(prefix)))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(z.read(n))
take("onnx-*.whl", "onnx/onnx-ml.proto", f"{out}/onnx")
take("onnx-*.whl", "onnx/backend/test/data/", f"{out}/onnx/data")
take("apache_tvm_ffi-*.whl", "tvm_ffi/include/dlpack/dlpack.h", f"{out}/include/dlpack")
take("nvidia_nvtx-*.whl", "nvidia/cu13/include/nvtx3/", f"{out}/include/nvtx3")
PY
llvm=/usr/lib/llvm-19
cp "$llvm/include/llvm-c/blake3.h" "$dir/include/llvm-c/"
mkdir "$tmp/blake3"
(cd "$tmp/blake3" && ar x "$llvm/lib/libLLVMSupport.a" $(ar t "$llvm/lib/libLLVMSupport.a" | grep '^blake3') && ar rcs libtw_blake3.a ./*.o)
cp "$tmp/blake3/libtw_blake3.a" "$dir/lib/"
echo "$stamp" > "$dir/stamp"
