// Norms over many tensors, and what is finite.
#pragma once

#include "graph/gradient.h"

namespace tw::train {

/// The sum of the squares of all elements of all `tensors`, f32[] of f32. Each tensor is summed by rows, which threads
/// and blocks share, and the rows of many together: a few kernels for a whole network.
graph::Term sum_of_squares(const graph::Terms& tensors);

/// Whether a number f32[] is neither NaN nor infinite.
graph::Term is_finite(const graph::Term& number);

}  // namespace tw::train
