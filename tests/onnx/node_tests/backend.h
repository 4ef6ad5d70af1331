// What runs an imported model in the conformance runner: the reference evaluator, or a compiled artefact.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/op.h"

namespace tw::conformance {

class Backend {
 public:
  virtual ~Backend() = default;
  /// The graph's outputs, in its order, for inputs of its input types, in its order. May throw any error of
  /// support/error.h; Unsupported counts as a refusal, everything else as a failure.
  virtual std::vector<graph::RefTensor> run(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs) = 0;
};

/// Evaluates the graph node by node in f64, every value rounded to its type.
std::unique_ptr<Backend> make_reference_backend(const graph::OpTable& ops);
/// Compiles the graph for this host, loads the artefact from memory and runs it.
std::unique_ptr<Backend> make_compiled_backend();

}  // namespace tw::conformance
