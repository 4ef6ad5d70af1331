// How far numbers may lie from their f64 reference: the table of rounding errors, and bounds made of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ref_tensor.h"

namespace tw::driver {

inline constexpr double kSafety = 4;  // of each bound: 4 * u * sqrt(K) * sum|a_i b_i|
/// How much larger errors of f64 are made while their effect is looked for: one of one unit in the last place would be
/// lost in the reference's own rounding.
inline constexpr double kF64Magnification = 65536;
/// Half the spacing of numbers of `type` at 1.
double unit_roundoff(DataType type);

/// The error of one operation whose result has type `type`, before kSafety.
struct RoundingErrors {
  double sum = 0;       // of a sum of K terms, times sqrt(K) * sum|terms|
  double function = 0;  // of any operation, times |result|
  double smallest = 0;  // of any operation, at least: below its normal numbers a type has a fixed spacing
  /// Of an operation other than a sum with result `x`.
  double of(double x) const;
};
RoundingErrors rounding_errors(DataType type);
/// The one of two types that has fewer digits; integers have none to lose.
DataType narrower(DataType a, DataType b);
double root_mean_square(const std::vector<double>& values);
/// The least bound of an element, since random errors may cancel there: from the root mean square of the deviations
/// over the tensor, or from the median of those that are not 0, which a few large elements do not move.
enum class MinBound : uint8_t { kMean, kMedian };
/// Bounds of elements `values` from the largest deviations that random errors caused there; `type` is the narrowest
/// that is rounded to on the way, their own at least: of a few roundings the random errors may cancel each other.
void finish_bounds(DataType type, const std::vector<double>& values, std::vector<double>& deviations,
                   MinBound min = MinBound::kMean);

/// The element of one tensor that is farthest from its reference, measured in its bound.
struct WorstElement {
  std::string tensor;
  int64_t index = 0;  // row-major, logical
  double got = 0;
  double want = 0;
  double bound = 0;   // allowed |got - want|
  int64_t wrong = 0;  // elements beyond their bound
  int64_t elements = 0;
  double operator_bound = 0;    // of the operators themselves, where an algorithm has a larger one
  int64_t beyond_operator = 0;  // elements beyond that
  double spread = 0;            // standard deviation of the reference's finite elements; 0: they are equal, or integers
  double largest = 0;           // error of an element, where both numbers are finite
  bool ok() const { return wrong == 0; }
};

/// Compares two tensors; `bounds` has one allowed error an element. NaN matches NaN, infinities themselves.
/// `operator_bounds` are those of the operators themselves; empty: the same.
WorstElement compare(const std::string& name, const graph::RefTensor& got, const graph::RefTensor& want,
                     const std::vector<double>& bounds, const std::vector<double>& operator_bounds = {});

}  // namespace tw::driver
