// Predicted times of the algorithms for one convolution.
#pragma once
#include <cstdint>

#include "core/target_info.h"

namespace tw::cost {

/// A convolution with 3 x 3 kernels, stride 1, no groups; a third spatial axis, the depth, is summed over directly.
struct ConvProblem {
  int64_t batch = 1;
  int64_t channels = 1, out_channels = 1;
  int64_t depth = 1, out_depth = 1;  // of the input with its padding, of the output
  int64_t kernel_depth = 1;          // of the kernel along the depth
  int64_t high = 1, wide = 1;        // of the output
  bool computed_weights = false;     // in each run, which then has to transform them
};

/// Where the weights come from when the convolution runs: the cache that all of a model's weights stay in, or DRAM.
enum class WeightsHome : uint8_t { kSharedCache, kMemory };

/// Time in ns on all compute units of a target with measured machine parameters. `m`: 0 is the direct algorithm, 2 and
/// 4 are Winograd's with tiles of m x m outputs. Arithmetic (multiplications, and for Winograd both transforms)
/// overlaps reading the weights, which are (m + 2)^2 / 9 times larger: the longer of the two, plus a share of the
/// shorter. Transformed input that does not fit L2 costs the latency of its lines, or the weights are read for each
/// part that does. Weights that are computed pass by a few times more while they are transformed.
double conv_ns(const ConvProblem& problem, int64_t m, WeightsHome home, const TargetInfo& target);

/// Bytes of the weights as algorithm `m` reads them.
int64_t conv_weight_bytes(const ConvProblem& problem, int64_t m);

/// Whether the machine's parameters are known that conv_ns asks for.
bool times_convolutions(const TargetInfo& target);

/// 4 or 2 where Winograd's is predicted to be faster by more than the model's errors, else 0.
int64_t best_algorithm(const ConvProblem& problem, WeightsHome home, const TargetInfo& target);

}  // namespace tw::cost
