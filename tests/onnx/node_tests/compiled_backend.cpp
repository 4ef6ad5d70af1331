#include <optional>

#include "artefact/session.h"
#include "driver/code/generate.h"
#include "driver/compile.h"
#include "ops/list.h"
#include "targets/registry.h"
#include "tests/onnx/node_tests/backend.h"

namespace tw::conformance {
namespace {

class CompiledBackend : public Backend {
 public:
  explicit CompiledBackend(const CompiledOptions& options) : options_(options) {}

  std::vector<graph::RefTensor> run(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs) override {
    driver::CompileOptions compile;
    compile.target = options_.target;
    compile.threads = 1;  // the runner's children share the CPUs
    const std::vector<uint8_t> artefact = driver::artefact_bytes(driver::compile_graph(graph, compile));
    if (options_.compile_only) return {};
    session_ = artefact::Session::load_memory(artefact, {});
    std::vector<artefact::Array> arrays;
    for (const graph::RefTensor& tensor : inputs) arrays.push_back(artefact::to_array(tensor));
    std::vector<graph::RefTensor> outputs;
    for (const artefact::Array& array : session_->run(arrays)) outputs.push_back(artefact::to_reference(array));
    return outputs;
  }
  bool gives_outputs() const override { return !options_.compile_only; }

 private:
  CompiledOptions options_;
  // Kept until the next one is loaded: the last session on a GPU closes it, and opening takes much longer than a test.
  std::optional<artefact::Session> session_;
};

constexpr int kNoDevice = 5;  // the exit code for a device that is missing or another one than the code is for

constexpr std::string_view kProbe =
    "graph probe {\n  input x : f32[2]\n  y : f32[2] = neg(x) as probe\n  output y\n}\n";

}  // namespace

std::unique_ptr<Backend> make_compiled_backend(const CompiledOptions& options) {
  return std::make_unique<CompiledBackend>(options);
}

Result<bool> compiled_backend_available(const CompiledOptions& options) {
  const bool gpu = targets::find_target(options.target).info.kind == DeviceKind::kCuda;
  const Result<bool> generation = gpu ? driver::cuda_generation_available() : Result<bool>(true);
  if (!generation.ok() || options.compile_only) return generation;
  const graph::Graph probe = graph::parse_graph(kProbe, {});
  try {
    CompiledBackend(options).run(probe, {graph::RefTensor::zeros(probe.value(probe.inputs[0]).type)});
  } catch (const artefact::RuntimeFailure& failure) {
    if (failure.exit_code() == kNoDevice) return Reason{failure.what()};
    throw;
  }
  return true;
}

}  // namespace tw::conformance
