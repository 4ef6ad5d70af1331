// What tests of training share: models from text, and steps on the reference evaluator.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "artefact/session.h"
#include "graph/ref_tensor.h"
#include "train/training_graph.h"

namespace tw::testing {

/// `weights` are the constants that are parameters, or statistics.
frontend::ImportResult trained_model(const std::string& text, std::set<std::string> weights);

graph::RefTensor f32_tensor(const Shape& shape, std::vector<double> elements);
graph::RefTensor i64_tensor(const Shape& shape, std::vector<int64_t> elements);
/// Numbers between -0.75 and 0.83 that differ with the seed.
std::vector<double> spread_numbers(int64_t count, int64_t seed);

/// Runs of a step in f64, nothing rounded, with its states from one to the next.
class ReferenceSteps {
 public:
  ReferenceSteps(const frontend::ImportResult& model, const train::TrainOptions& options);
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
  train::Training training_;
  std::map<std::string, graph::RefTensor> states_;
};

/// The same of a compiled step.
class CompiledSteps {
 public:
  CompiledSteps(const frontend::ImportResult& model, const train::TrainOptions& options,
                DataType dtype = DataType::f32());
  double run(const std::vector<graph::RefTensor>& inputs);
  std::vector<double> state(const std::string& name) const;
  DataType type_of(const std::string& name) const;

 private:
  graph::RefTensor tensor(const std::string& name) const;
  train::Training training_;
  artefact::Session session_;
  std::vector<artefact::Array> states_;
};

/// The message of the UserError that making a step ends with; "nothing" where it does not.
std::string refusal(const frontend::ImportResult& model, const train::TrainOptions& options);

}  // namespace tw::testing
