// The graph of a training step, made of a model: forward pass, loss, gradients and optimizer as nodes of one graph, so
// that all of them are planned together (Ivanov et al., Data Movement Is All You Need, 2021, section 2).
#pragma once
#include <vector>

#include "driver/options.h"
#include "frontend/onnx/imported.h"
#include "train/options.h"

namespace tw::train {

/// One step as a graph of inputs and outputs. Inputs: the model's, `labels` (but for kOutput), `learning_rate` f32[].
/// Output: `loss` f32[]. Behind them, in pairs: every parameter NAME and its next value NAME.next, NAME.m and NAME.v of
/// the optimizer, `step` of those that count.
struct TrainingStep {
  graph::Graph graph;
  std::vector<driver::StatePair> states;  // with the values that they begin with
};

/// Throws UserError, naming the model's outputs or parameters, where the loss does not fit the output or no parameter
/// is trained, and Unsupported naming all operators on the way that have no gradient.
TrainingStep make_training_step(const frontend::ImportResult& model, const graph::OpTable& ops,
                                const TrainOptions& options);

}  // namespace tw::train
