#include "transform/rewrite/weight_parts.h"

#include <cmath>

#include "core/ulp.h"

namespace tw::transform {

std::optional<WeightParts> weight_parts(double weight, int64_t copies, DataType type) {
  if (weight == 0 || !std::isfinite(weight)) return WeightParts{weight, weight};
  const double unit = ulp(type, weight), shared = static_cast<double>(copies) * unit;
  if (std::fabs(weight) <= shared) return std::nullopt;
  return WeightParts{weight - std::copysign(shared, weight), std::copysign(unit, weight)};
}

}  // namespace tw::transform
