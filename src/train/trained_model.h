// A model that can be trained: what training functions (training_graph.h) have in common.
#pragma once
#include <string>
#include <vector>

#include "driver/options.h"
#include "frontend/onnx/imported.h"
#include "graph/op.h"
#include "train/options.h"

namespace tw::train {

/// The model's graph with `labels` (but for kOutput) behind its inputs and `loss` f32[] behind its nodes; its outputs
/// are the model's. Parameters that are trained, and means and variances of batch norms that follow the data, are no
/// constants any more, and no inputs yet.
struct TrainedModel {
  graph::Graph graph;
  std::vector<graph::ValueId> parameters;
  std::vector<driver::InitialValue> initial;  // of each
  /// Of each, the model's parameters that lie in it; none: it is one itself.
  std::vector<std::vector<driver::StatePair::Part>> parts;
  std::vector<std::string> masks;  // initializers of f32 that are no parameters: numbers that hide scores
  std::vector<graph::ValueId> statistics;
  std::vector<driver::InitialValue> initial_statistics;  // of each
  graph::ValueId loss = graph::kAbsent;
};

/// Throws UserError, naming the model's outputs or parameters, where the loss does not fit the output, no parameter is
/// trained, or an input has a name that is taken.
TrainedModel make_trained_model(const frontend::ImportResult& model, const graph::OpTable& ops,
                                const TrainOptions& options);

/// Takes `name` from the value that has it, so that one of the functions' own gets it. Throws UserError for an input.
void claim(graph::Graph& graph, const std::string& name);

}  // namespace tw::train
