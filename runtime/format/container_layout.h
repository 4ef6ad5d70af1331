// Constants of the .tw file that its reader and its writer share; see container.h for the layout.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

#include "runtime/format/container.h"

namespace tw::format {

/// Like PNG's: a byte with the high bit set, the name, and line ends that a text-mode transfer would change.
inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'T', 'W', '\r', '\n', 0x1a, '\n', 0x00};
inline constexpr size_t kVersionAt = 8;
inline constexpr size_t kSectionCountAt = 12;
inline constexpr size_t kFileSizeAt = 16;
inline constexpr size_t kHashedHeaderBytes = 64;
inline constexpr size_t kRootHashAt = 64;
inline constexpr size_t kTableAt = 96;
inline constexpr size_t kRowBytes = 80;
inline constexpr size_t kNameBytes = 32;
inline constexpr size_t kRowOffsetAt = 32;
inline constexpr size_t kRowSizeAt = 40;
inline constexpr size_t kRowHashAt = 48;
inline constexpr uint32_t kMaxSections = 4096;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers of the file are copied as they are");

template <typename T>
T load(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<uint8_t>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

constexpr uint64_t align_up(uint64_t value) {
  return (value + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

}  // namespace tw::format
