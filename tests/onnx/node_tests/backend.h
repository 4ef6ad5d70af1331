// What runs an imported model in the conformance runner: the reference evaluator, or a compiled artefact.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/op.h"
#include "support/error.h"

namespace tw::conformance {

class Backend {
 public:
  virtual ~Backend() = default;
  /// The graph's outputs, in its order, for inputs of its input types, in its order. May throw any error of
  /// support/error.h; Unsupported counts as a refusal, everything else as a failure.
  virtual std::vector<graph::RefTensor> run(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs) = 0;
  /// False: run() only shows that the graph can be compiled, and gives no outputs.
  virtual bool gives_outputs() const { return true; }
};

/// Evaluates the graph node by node in f64, every value rounded to its type.
std::unique_ptr<Backend> make_reference_backend(const graph::OpTable& ops);

struct CompiledOptions {
  std::string target = "cpu";  // of --target
  bool compile_only = false;
};
/// Compiles the graph for a target, loads the artefact from memory and runs it.
std::unique_ptr<Backend> make_compiled_backend(const CompiledOptions& options);

/// Whether make_compiled_backend(options) can do its work on this machine, found out by doing it; else what is missing.
/// Opens the device: not to be called in a process that forks.
Result<bool> compiled_backend_available(const CompiledOptions& options);

}  // namespace tw::conformance
