#include "tests/harness/graph_evaluate.h"
#include "tests/onnx/node_tests/backend.h"

namespace tw::conformance {
namespace {

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(const graph::OpTable& ops) : ops_(ops) {}
  std::vector<graph::RefTensor> run(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs) override {
    const std::vector<graph::RefTensor> values = graph::evaluate(graph, ops_, inputs, graph::Rounding::kEachValue);
    std::vector<graph::RefTensor> outputs;
    for (graph::ValueId id : graph.outputs) outputs.push_back(values.at(id));
    return outputs;
  }

 private:
  const graph::OpTable& ops_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(const graph::OpTable& ops) {
  return std::make_unique<ReferenceBackend>(ops);
}

}  // namespace tw::conformance
