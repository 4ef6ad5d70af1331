#include "runtime/format/hash.h"

#include <llvm-c/blake3.h>

namespace tw::format {

Hash blake3(std::initializer_list<Bytes> parts) {
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init(&hasher);
  for (const Bytes part : parts) llvm_blake3_hasher_update(&hasher, part.data(), part.size());
  Hash hash;
  llvm_blake3_hasher_finalize(&hasher, hash.data(), hash.size());
  return hash;
}

std::string to_hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace tw::format
