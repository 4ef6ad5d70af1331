// BLAKE3, the hash of sections and artefacts.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tw::format {

using Bytes = std::span<const uint8_t>;
using Hash = std::array<uint8_t, 32>;

/// The bytes of a text or of a vector of bytes.
template <typename Range>
Bytes bytes_of(const Range& range) {
  return {reinterpret_cast<const uint8_t*>(range.data()), range.size()};
}

/// BLAKE3 of the concatenation of `parts`.
Hash blake3(std::initializer_list<Bytes> parts);

/// Lower-case hexadecimal digits, two for each byte.
std::string to_hex(Bytes bytes);

}  // namespace tw::format
