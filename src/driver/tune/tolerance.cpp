#include "driver/tune/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ulp.h"

namespace tw::driver {
namespace {

using graph::RefTensor;

constexpr double kFunctionUlps = 2;  // of an element-wise function, times kSafety

// Sums of 16-bit floats are kept in f32.
DataType accumulator(DataType type) { return type.bits() < 32 ? DataType::f32() : type; }

double median_of_others_than_zero(std::vector<double> values) {
  std::erase(values, 0.0);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// By Welford's recurrence: the difference of two large sums would lose a small spread.
double standard_deviation(const std::vector<double>& values) {
  double mean = 0, squares = 0, count = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    const double from_mean = v - mean;
    mean += from_mean / ++count;
    squares += from_mean * (v - mean);
  }
  return count > 0 ? std::sqrt(squares / count) : 0;
}

}  // namespace

double unit_roundoff(DataType type) { return std::ldexp(1.0, -significand_bits(type)); }

double RoundingErrors::of(double x) const { return std::max(function * std::fabs(x), smallest); }

DataType narrower(DataType a, DataType b) {
  if (!a.is_float() || !b.is_float()) return a;
  return significand_bits(b) < significand_bits(a) ? b : a;
}

RoundingErrors rounding_errors(DataType type) {
  // Of f16 half the spacing below its normal numbers; of others, which may be 0 there (ADR 0011), the smallest of
  // these.
  const bool flushes = type != DataType::f16();
  const double subnormal = flushes ? std::ldexp(ulp(type, 0), significand_bits(type) - 1) : ulp(type, 0) / 2;
  return {unit_roundoff(accumulator(type)), kFunctionUlps / kSafety * unit_roundoff(type),
          kFunctionUlps / kSafety * subnormal};
}

double root_mean_square(const std::vector<double>& values) {
  double square = 0;
  for (const double v : values) square += v * v;
  return values.empty() ? 0 : std::sqrt(square / static_cast<double>(values.size()));
}

void finish_bounds(DataType type, const std::vector<double>& values, std::vector<double>& bounds, MinBound min) {
  const double floor = min == MinBound::kMean ? root_mean_square(bounds) : median_of_others_than_zero(bounds);
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (floor > 0) bounds[i] = kSafety * std::max(bounds[i], floor) + 2 * ulp(type, values[i]);
  }
}

WorstElement compare(const std::string& name, const RefTensor& got, const RefTensor& want,
                     const std::vector<double>& bounds, const std::vector<double>& operator_bounds) {
  WorstElement worst{.tensor = name, .elements = want.type.elements(), .spread = standard_deviation(want.floats)};
  const std::vector<double>& tighter = operator_bounds.empty() ? bounds : operator_bounds;
  double worst_ratio = -1;
  for (int64_t i = 0; i < worst.elements; ++i) {
    const double a = got.at(i);
    const double b = want.at(i);
    const bool equal = a == b || (std::isnan(a) && std::isnan(b));
    const double bound = bounds.empty() ? 0 : bounds[i];
    const double error = equal ? 0 : std::fabs(a - b);
    const bool ok = equal || error <= bound;
    if (std::isfinite(error)) worst.largest = std::max(worst.largest, error);
    worst.wrong += ok ? 0 : 1;
    worst.beyond_operator += equal || error <= (tighter.empty() ? 0 : tighter[i]) ? 0 : 1;
    double ratio = bound > 0 ? error / bound : (ok ? 0 : std::numeric_limits<double>::infinity());
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst.index = i;
    worst.got = a;
    worst.want = b;
    worst.bound = bound;
    worst.operator_bound = tighter.empty() ? 0 : tighter[i];
  }
  return worst;
}

}  // namespace tw::driver
