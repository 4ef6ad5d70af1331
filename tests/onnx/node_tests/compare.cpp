#include "tests/onnx/node_tests/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tw::conformance {
namespace {

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(DataType type) {
  if (type == DataType::f16()) return {1e-2, 1e-3};   // a few units in the last place of 11 bits
  if (type == DataType::bf16()) return {4e-2, 1e-2};  // of 8 bits
  return {1e-3, 1e-7};                                // assert_allclose in the package's runner
}

// The expected numbers were computed in f32: where terms cancel, they carry its noise, a few units in the last place of
// the largest number around.
constexpr double kNoise = 0x1p-22;

double largest(const graph::RefTensor& tensor) {
  double result = 0;
  for (double x : tensor.floats) {
    if (std::isfinite(x)) result = std::max(result, std::fabs(x));
  }
  return result;
}

bool same(double a, double b, Tolerance t) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= t.absolute + t.relative * std::fabs(b);
}

}  // namespace

std::string difference(const graph::RefTensor& actual, const graph::RefTensor& expected) {
  if (actual.type != expected.type)
    return fmt::format("is {}, expected {}", to_string(actual.type), to_string(expected.type));
  Tolerance tolerance = actual.is_float() ? tolerance_of(actual.type.type) : Tolerance{0, 0};
  tolerance.absolute += kNoise * largest(expected);
  int64_t wrong = 0;
  int64_t first = -1;
  for (int64_t i = 0; i < actual.type.elements(); ++i) {
    const bool equal =
        actual.is_float() ? same(actual.floats[i], expected.floats[i], tolerance) : actual.ints[i] == expected.ints[i];
    if (equal) continue;
    ++wrong;
    if (first < 0) first = i;
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} elements differ, first at {}: {} instead of {}", wrong, actual.type.elements(), first,
                     actual.at(first), expected.at(first));
}

}  // namespace tw::conformance
