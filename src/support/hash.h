// Content hashes.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tw {

/// BLAKE3 of `bytes`, as 64 lower-case hexadecimal digits.
std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

}  // namespace tw
