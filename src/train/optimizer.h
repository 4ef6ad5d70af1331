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

}  // namespace tw::train
