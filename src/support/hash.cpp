#include "support/hash.h"

#include <fmt/format.h>

#include <array>

#include "llvm-c/blake3.h"

namespace tw {

std::string content_hash(std::span<const std::byte> bytes) {
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init(&hasher);
  llvm_blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  std::array<uint8_t, LLVM_BLAKE3_OUT_LEN> digest;
  llvm_blake3_hasher_finalize(&hasher, digest.data(), digest.size());
  std::string text;
  for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string content_hash(std::string_view text) { return content_hash(std::as_bytes(std::span(text))); }

}  // namespace tw
