#include "tests/onnx/node_tests/run_case.h"

#include <algorithm>

#include "frontend/onnx/import.h"
#include "tests/onnx/node_tests/compare.h"

namespace tw::conformance {
namespace {

using frontend::ImportOptions;
using graph::RefTensor;

void set(Outcome& outcome, Verdict verdict, std::string reason) {
  outcome.verdict = verdict;
  outcome.reason = std::move(reason);
}

// All inputs of a data set by name. Light models have no input files.
std::map<std::string, RefTensor> read_inputs(const Case& test, const DataSet& data,
                                             const frontend::ModelSummary& summary) {
  std::map<std::string, RefTensor> inputs;
  if (!test.ramp_input && data.inputs.size() > summary.inputs.size()) {
    throw UserError(fmt::format("{} input files for {} inputs", data.inputs.size(), summary.inputs.size()));
  }
  for (size_t i = 0; i < data.inputs.size(); ++i)
    inputs.emplace(summary.inputs[i].name, read_tensor_file(data.inputs[i]));
  return inputs;
}

RefTensor ramp(const TensorType& type) {
  RefTensor tensor = RefTensor::zeros(type);
  for (size_t i = 0; i < tensor.floats.size(); ++i)
    tensor.floats[i] = static_cast<double>(i) / static_cast<double>(tensor.floats.size());
  tensor.round_to_type();
  return tensor;
}

// Binding one input may let import come to the next that has to be bound, so this is repeated.
graph::Graph import_model(const Case& test, const std::map<std::string, RefTensor>& inputs, const graph::OpTable& ops,
                          Outcome& outcome) {
  ImportOptions options;
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.type.shape;
  while (true) {
    try {
      return frontend::import_onnx_file(test.model, ops, options).graph;
    } catch (const frontend::UnsupportedModel& e) {
      bool more = false;
      for (const std::string& name : e.bindable()) {
        const auto it = inputs.find(name);
        if (it != inputs.end()) more = options.constants.emplace(name, it->second).second || more;
      }
      if (!more) throw;
      outcome.bound_constants = true;
    }
  }
}

void run_data_set(const Case& test, const DataSet& data, Backend& backend, const graph::OpTable& ops,
                  Outcome& outcome) {
  const frontend::ModelSummary summary = frontend::summarize_onnx_file(test.model);
  std::map<std::string, RefTensor> inputs;
  try {
    inputs = read_inputs(test, data, summary);
  } catch (const std::runtime_error&) {
    // Inputs that are no tensors (sequences, strings): import says what is not supported.
    frontend::import_onnx_file(test.model, ops, {});
    throw;
  }
  const graph::Graph graph = import_model(test, inputs, ops, outcome);
  std::vector<RefTensor> arguments;
  for (graph::ValueId id : graph.inputs) {
    const graph::Value& value = graph.value(id);
    const auto it = inputs.find(value.name);
    if (it == inputs.end() && !test.ramp_input) throw UserError(fmt::format("no data for input '{}'", value.name));
    arguments.push_back(it == inputs.end() ? ramp(value.type) : it->second);
  }
  const std::vector<RefTensor> outputs = backend.run(graph, arguments);
  if (!backend.gives_outputs()) return;
  for (size_t k = 0; k < data.outputs.size() && outcome.verdict == Verdict::kPassed; ++k) {
    const std::string why =
        k < outputs.size() ? difference(outputs[k], read_tensor_file(data.outputs[k])) : "is missing";
    if (!why.empty()) set(outcome, Verdict::kWrong, fmt::format("output {} {}", k, why));
  }
}

// Whether a refusal says which operator of the model it is about.
bool names_operator(const frontend::UnsupportedModel& refusal, const Case&) {
  return std::ranges::any_of(refusal.items(), [](const auto& item) { return !item.nodes.empty(); });
}
bool names_operator(const std::runtime_error& refusal, const Case& test) {
  const std::string message = refusal.what();
  return std::ranges::any_of(frontend::summarize_onnx_file(test.model).operators,
                             [&](const auto& op) { return message.find(op.first) != std::string::npos; });
}

template <typename Refusal>
void refuse(const Case& test, const Refusal& refusal, Outcome& outcome) {
  const bool named = names_operator(refusal, test);
  set(outcome, named ? Verdict::kRefused : Verdict::kBroken,
      fmt::format("{}{}", named ? "" : "the refusal names no operator: ", refusal.what()));
}

}  // namespace

Outcome run_case(const Case& test, Backend& backend, const graph::OpTable& ops) {
  Outcome outcome;
  try {
    if (test.data.empty()) throw UserError("no data set");
    for (const DataSet& data : test.data) run_data_set(test, data, backend, ops, outcome);
  } catch (const frontend::UnsupportedModel& e) {
    refuse(test, e, outcome);
  } catch (const Unsupported& e) {
    refuse(test, e, outcome);
  } catch (const UserError& e) {
    refuse(test, e, outcome);
  } catch (const std::exception& e) {
    set(outcome, Verdict::kBroken, e.what());
  }
  std::ranges::replace(outcome.reason, '\n', ' ');
  return outcome;
}

}  // namespace tw::conformance
