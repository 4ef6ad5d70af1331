// What layouts cost, in closed form: times of contractions and poolings for each order of their input and output, and
// of copies between the two orders, row-major and channels last. In ns of one compute unit, for comparison among each
// other.
#pragma once
#include <array>
#include <cstdint>

#include "core/target_info.h"

namespace tw::cost {

/// What the time of a convolution or pooling under layouts depends on.
struct SpatialProblem {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t channels = 1, out_channels = 1;  // of a group
  int64_t filter_positions = 1;
  int64_t points = 1, width = 1;  // of the output: all spatial dims, those that are contiguous in a row
  int64_t plane = 1;              // points of the input
  int64_t lanes = 1;
  double in_bytes = 0, out_bytes = 0, weight_bytes = 0;
  bool padded = false;
  bool short_rows = false;  // rows of the input with their padding are shorter than a line
  bool strided = false;     // along the last dim
  bool pointwise = false;   // rows of the output are rows of the input: all spatial dims are one
  bool is_contraction = true;
  bool is_winograd = false;
};

/// A copy of `bytes` to the other order: read and written at the bandwidth of the level that holds both, and a step of
/// the runtime.
double conversion_ns(double bytes, const TargetInfo& target);

/// Of a convolution or pooling, [order of input 0][order of the output]; 1 is channels last.
using OrderCosts = std::array<std::array<double, 2>, 2>;
OrderCosts spatial_ns(const SpatialProblem& problem, const TargetInfo& target);

}  // namespace tw::cost
