// What a training step does with its gradients: which states it has, and what it leaves in them.
#pragma once
#include <vector>

#include "train/batch_statistics.h"
#include "train/options.h"
#include "train/step_states.h"
#include "train/trained_model.h"

namespace tw::train {

/// What stands in the graph before the update.
struct StepParts {
  std::vector<graph::ValueId> gradients;  // of each parameter
  std::vector<Followed> statistics;       // of batch norms
  graph::ValueId rate = graph::kAbsent;
  graph::ValueId scale = graph::kAbsent;  // of the loss, a state already
};

struct StepResults {
  graph::ValueId loss;                   // NaN where the step is left out
  std::vector<graph::ValueId> averages;  // the states of each parameter's, if they are kept
};
/// Appends the update to the graph of `model` and fills `states`, of which the scale is one already.
StepResults append_update(TrainedModel& model, const graph::OpTable& ops, const TrainOptions& options,
                          const StepParts& parts, StepStates& states);

}  // namespace tw::train
