#!/usr/bin/env bash
# BLAKE3 for AArch64 in .third_party/aarch64/lib/libtw_blake3.a, out of Debian's llvm-19-dev for that architecture: what the
# runtime needs to be cross-compiled. Does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
library=${TW_THIRD_PARTY:-.third_party}/aarch64/lib/libtw_blake3.a
[ ! -e "$library" ] || { echo "third-party: $library is there"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lists/partial"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::Lists=$tmp/lists")
apt-get "${options[@]}" update
(cd "$tmp" && apt-get "${options[@]}" download llvm-19-dev 2> download.log && dpkg -x llvm-19-dev*.deb files)
archive=$tmp/files/usr/lib/llvm-19/lib/libLLVMSupport.a
mkdir "$tmp/blake3"
(cd "$tmp/blake3" && ar x "$archive" $(ar t "$archive" | grep '^blake3') && ar rcs libtw_blake3.a ./*.o)
mkdir -p "$(dirname "$library")"
cp "$tmp/blake3/libtw_blake3.a" "$library"
echo "third-party: made $library"
