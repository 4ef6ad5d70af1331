#include "core/ulp.h"

#include <algorithm>
#include <cmath>

namespace tw {

int significand_bits(DataType type) {
  if (type.is_half()) return type.scalar() == ScalarType::kF16 ? 11 : 8;
  return type.scalar() == ScalarType::kF32 ? 24 : 53;
}

double ulp(DataType type, double x) {
  if (!type.is_float() || !std::isfinite(x)) return 0;
  const int bits = significand_bits(type);
  const int smallest =
      type == DataType::f16() ? -24 : (type == DataType::f64() ? -1074 : (type == DataType::bf16() ? -133 : -149));
  const int exponent = x == 0 ? smallest : std::ilogb(x) - bits + 1;
  return std::ldexp(1.0, std::max(exponent, smallest));
}

}  // namespace tw
