#include "core/special_values.h"

#include <algorithm>
#include <cstring>

namespace tw {
namespace {

// Floats whose exponent is all ones: infinite where the fraction is 0, else no number.
template <typename Word>
SpecialValues find(std::span<const std::byte> bytes, Word exponent, Word fraction) {
  constexpr size_t kBlock = 4096;  // elements: few are special, and blocks without any are passed at full speed
  const size_t count = bytes.size() / sizeof(Word);
  const auto word_at = [&](size_t i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
    return word;
  };
  SpecialValues found;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    size_t special = 0;
    for (size_t i = begin; i < end; ++i) special += (word_at(i) & exponent) == exponent ? 1 : 0;
    for (size_t i = begin; special > 0 && i < end; ++i) {
      if ((word_at(i) & exponent) != exponent) continue;
      int64_t& first = (word_at(i) & fraction) != 0 ? found.nan : found.infinity;
      if (first < 0) first = static_cast<int64_t>(i);
    }
    if (found.nan >= 0 && found.infinity >= 0) break;
  }
  return found;
}

}  // namespace

SpecialValues find_special_values(std::span<const std::byte> bytes, DataType type) {
  if (type == DataType::f16()) return find<uint16_t>(bytes, 0x7c00, 0x03ff);
  if (type == DataType::bf16()) return find<uint16_t>(bytes, 0x7f80, 0x007f);
  if (type == DataType::f32()) return find<uint32_t>(bytes, 0x7f80'0000, 0x007f'ffff);
  if (type == DataType::f64()) return find<uint64_t>(bytes, 0x7ff0'0000'0000'0000, 0x000f'ffff'ffff'ffff);
  return {};
}

}  // namespace tw
