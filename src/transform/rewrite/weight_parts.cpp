#include "transform/rewrite/weight_parts.h"

#include <algorithm>
#include <cmath>

namespace tw::transform {

std::optional<WeightParts> weight_parts(double weight, int64_t copies, DataType type) {
  if (weight == 0 || !std::isfinite(weight)) return WeightParts{weight, weight};
  const bool wide_range = type == DataType::bf16();
  const int digits = wide_range ? 8 : 11, least = wide_range ? -133 : -24;
  int exponent = 0;
  std::frexp(weight, &exponent);
  const double unit = std::ldexp(1, std::max(exponent - digits, least)), shared = static_cast<double>(copies) * unit;
  if (std::fabs(weight) <= shared) return std::nullopt;
  return WeightParts{weight - std::copysign(shared, weight), std::copysign(unit, weight)};
}

}  // namespace tw::transform
