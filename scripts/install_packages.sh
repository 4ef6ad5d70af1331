#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing need; does nothing when all are installed.
#   scripts/install_packages.sh          install what is missing (through sudo when not root)
#   scripts/install_packages.sh --list   print the list
set -euo pipefail
packages=(
  g++ cmake ninja-build ccache binutils lld-19                             # build
  llvm-19-dev zlib1g-dev libzstd-dev                                       # code generation
  libprotobuf-dev protobuf-compiler libcli11-dev libspdlog-dev libfmt-dev  # libraries
  nlohmann-json3-dev libminizip-dev libsqlite3-dev
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev llvm-19-tools  # tests
  clang-19 libclang-rt-19-dev clang-format clang-tidy                      # fuzzers, checks
  chromium                                                                 # looks at reports in tests
  g++-aarch64-linux-gnu qemu-user                                          # runs code for AArch64 in tests
  python3 python3-dev python3-venv python3-pip xz-utils git ca-certificates  # scripts
)
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
if ! command -v dpkg-query >/dev/null; then
  echo "this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "packages: all ${#packages[@]} are installed"
  exit 0
fi
sudo=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  sudo=(sudo)
fi
echo "packages: installing ${missing[*]}"
apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@"; }
apt update
apt install -y --no-install-recommends "${missing[@]}"
echo "packages: done"
