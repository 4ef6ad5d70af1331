// Steps on the reference evaluator, in f64.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/imported.h"
#include "graph/ref_tensor.h"
#include "train/training_graph.h"

namespace tw::train {

graph::RefTensor integers(const Shape& shape, std::vector<int64_t> elements);

/// Runs of a step in f64, nothing rounded, with its states from one to the next.
class ReferenceSteps {
 public:
  ReferenceSteps(const frontend::ImportResult& model, const TrainOptions& options);
  /// The loss. `inputs` are those in front of the states.
  double run(const std::vector<graph::RefTensor>& inputs);
  /// The outputs of another function, with the states as they are.
  std::vector<graph::RefTensor> call(const std::string& function, const std::vector<graph::RefTensor>& inputs) const;
  std::vector<double>& state(const std::string& name);
  bool has(const std::string& name) const { return states_.contains(name); }
  /// All of them, by name.
  const std::map<std::string, graph::RefTensor>& states() const { return states_; }
  const graph::Graph& graph() const { return training_.functions.front().graph; }

 private:
  Training training_;
  std::map<std::string, graph::RefTensor> states_;
};

/// The message of the UserError that making a step ends with; "nothing" where it does not.
std::string refusal(const frontend::ImportResult& model, const TrainOptions& options);

}  // namespace tw::train
