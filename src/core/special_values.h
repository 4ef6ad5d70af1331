// NaNs and infinities among elements in memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/data_type.h"

namespace tw {

/// Places of the first such elements, -1 where there is none.
struct SpecialValues {
  int64_t nan = -1;
  int64_t infinity = -1;
};

/// Of `bytes`, elements of `type`; none in integers.
SpecialValues find_special_values(std::span<const std::byte> bytes, DataType type);

}  // namespace tw
