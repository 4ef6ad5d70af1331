// Optimizers as nodes behind gradients.
#pragma once
#include <string>
#include <vector>

#include "graph/gradient.h"
#include "train/options.h"

namespace tw::train {

/// The states beside a parameter, by the suffix of their names.
std::vector<std::string> kept_by(const Optimizer& optimizer);
/// Whether it counts steps.
bool counts_steps(const Optimizer& optimizer);

/// What the optimizer is told of one parameter; `kept` in the order of kept_by, `step` the number of this step, from 1,
/// or nothing where none are counted. All f32.
struct Update {
  graph::Term parameter, gradient, rate, step;
  std::vector<graph::Term> kept;
};
/// The parameter's next value, and those of what is kept.
std::vector<graph::Term> updated(const Optimizer& optimizer, const Update& update);

// ---- Norms over many tensors, and what is finite (norm.cpp).

/// The sum of the squares of all elements of all `tensors`, f32[] of f32. Each tensor is summed by rows, which threads
/// and blocks share, and the rows of many together: a few kernels for a whole network.
graph::Term sum_of_squares(const graph::Terms& tensors);

/// Whether a number f32[] is neither NaN nor infinite.
graph::Term is_finite(const graph::Term& number);

}  // namespace tw::train
