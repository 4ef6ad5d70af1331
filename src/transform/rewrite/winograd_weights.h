// What operator winograd_conv wants of its weights, for weights that are computed in each run.
#pragma once
#include "transform/editor.h"

namespace tw::transform {

struct WinogradWeights {
  graph::ValueId transformed, scales;
};

/// Of a conv with kernels of 3 x 3 (a depth before them aside), for tiles of m x m, in f32: the kernels transformed,
/// and the sizes of each channel's weights (ops/winograd.h). Whether the kernels suit the algorithm is known when they
/// are: where they do not, all scales are infinite, so that all tiles are uneven and outputs are direct sums.
WinogradWeights compute_winograd_weights(Editor& editor, const graph::Node& conv, int64_t m);

}  // namespace tw::transform
