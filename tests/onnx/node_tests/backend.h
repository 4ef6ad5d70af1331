// What runs an imported model in the conformance runner: the reference evaluator, or a compiled artefact.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"

namespace tw::conformance {

/// A model as the runner has imported it; a backend may use the graph or import the file again with the options.
struct Model {
  std::string path;
  frontend::ImportOptions options;
  graph::Graph graph;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// The model's outputs, in its order, for inputs of the graph's input types, in its order. May throw any error of
  /// support/error.h; Unsupported counts as a refusal, everything else as a failure.
  virtual std::vector<graph::RefTensor> run(const Model& model, const std::vector<graph::RefTensor>& inputs) = 0;
};

/// Evaluates the graph node by node in f64, every value rounded to its type.
std::unique_ptr<Backend> make_reference_backend(const graph::OpTable& ops);

}  // namespace tw::conformance
