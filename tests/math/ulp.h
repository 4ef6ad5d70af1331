// Distances between floats, in units in the last place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/data_type.h"
#include "expr/scalar.h"

namespace tw::testing {

/// digits: of the mantissa, the leading one included; exponents of the smallest and the largest normal number.
struct FloatFormat {
  int digits;
  int min_exponent;
  int max_exponent;
};
inline FloatFormat format_of(ScalarType type) {
  if (type == ScalarType::kF16) return {11, -14, 15};
  if (type == ScalarType::kBF16) return {8, -126, 127};
  return {24, -126, 127};
}

/// The distance of neighbours around x in `format`.
inline double ulp(FloatFormat format, double x) {
  const int exponent = x == 0 || !std::isfinite(x) ? format.min_exponent : std::ilogb(x);
  return std::ldexp(1.0, std::max(exponent, format.min_exponent) - (format.digits - 1));
}

/// How far `y`, a value of `type`, lies from `exact`, in ULP of f32 at `scale`, beyond the half unit by which rounding
/// to a narrower type moves it: |y - exact| <= [type is narrower] * ulp_type(exact) / 2 + result * ulp_f32(scale).
/// 0 where y is exact rounded. Infinite where one is NaN and the other not, or a zero has the wrong sign. Infinity
/// counts as the number after the largest.
inline double f32_ulp_error(ScalarType type, double y, double exact, double scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(y) || std::isnan(exact)) return std::isnan(y) && std::isnan(exact) ? 0 : kInfinity;
  if (exact == 0) return y == 0 && std::signbit(y) == std::signbit(exact) ? 0 : kInfinity;
  if (y == round_to(type, exact)) return 0;
  const FloatFormat format = format_of(type);
  const double end = std::ldexp(1.0, format.max_exponent + 1);
  const double a = std::clamp(y, -end, end), b = std::clamp(exact, -end, end);
  const double rounding = type == ScalarType::kF32 ? 0 : ulp(format, b) / 2;
  return std::max(0.0, std::fabs(a - b) - rounding) / ulp(format_of(ScalarType::kF32), scale);
}

}  // namespace tw::testing
