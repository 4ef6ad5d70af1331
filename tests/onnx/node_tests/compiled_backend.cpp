#include "driver/compile.h"
#include "driver/session.h"
#include "tests/onnx/node_tests/backend.h"

namespace tw::conformance {
namespace {

class CompiledBackend : public Backend {
 public:
  std::vector<graph::RefTensor> run(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs) override {
    driver::Session session =
        driver::Session::load_memory(driver::artefact_bytes(driver::compile_graph(graph, {})), {});
    std::vector<driver::Array> arrays;
    for (const graph::RefTensor& tensor : inputs) arrays.push_back(driver::to_array(tensor));
    std::vector<graph::RefTensor> outputs;
    for (const driver::Array& array : session.run(arrays)) outputs.push_back(driver::to_reference(array));
    return outputs;
  }
};

}  // namespace

std::unique_ptr<Backend> make_compiled_backend() { return std::make_unique<CompiledBackend>(); }

}  // namespace tw::conformance
