#!/usr/bin/env bash
# Checks that every C and C++ file is as clang-format leaves it (.clang-format); --fix rewrites those that are not.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
folders=()
for folder in src include runtime tools tests bench examples python; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.c' \) -print0 |
  xargs -0 --no-run-if-empty clang-format "${mode[@]}"
echo "format: clean"
