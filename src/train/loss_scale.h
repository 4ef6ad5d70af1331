// The dynamic scale of a loss, a state.
#pragma once
#include "graph/gradient.h"
#include "train/options.h"

namespace tw::train {

/// Names of states: the scale, and how many steps were left out because gradients were not finite.
inline constexpr const char *kLossScale = "loss_scale", *kSkippedSteps = "skipped_steps";

/// What the next step finds: the scale, and how many good steps there were since it changed. `good` is whether this
/// step was, bool[]. The scale stays between 2^-24, the smallest number of f16, and 2^24, so that neither a series of
/// bad batches nor one of zeros leads to a number that it cannot leave.
struct NextScale {
  graph::Term scale, good_steps;
};
NextScale next_scale(const LossScale& options, const graph::Term& scale, const graph::Term& good_steps,
                     const graph::Term& good);

}  // namespace tw::train
