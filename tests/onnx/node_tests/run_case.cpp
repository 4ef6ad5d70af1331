#include "tests/onnx/node_tests/run_case.h"

#include <algorithm>

#include "frontend/onnx/import.h"
#include "support/join.h"
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

// A graph and the values of its inputs.
struct Run {
  graph::Graph graph;
  std::vector<RefTensor> arguments;
};

Run import_run(const Case& test, const DataSet& data, const graph::OpTable& ops, Outcome& outcome) {
  const frontend::ModelSummary summary = frontend::summarize_onnx_file(test.model);
  std::map<std::string, RefTensor> inputs;
  try {
    inputs = read_inputs(test, data, summary);
  } catch (const std::runtime_error&) {
    // Inputs that are no tensors (sequences, strings): import says what is not supported.
    frontend::import_onnx_file(test.model, ops, {});
    throw;
  }
  Run run{import_model(test, inputs, ops, outcome), {}};
  for (graph::ValueId id : run.graph.inputs) {
    const graph::Value& value = run.graph.value(id);
    const auto it = inputs.find(value.name);
    if (it == inputs.end() && !test.ramp_input) throw UserError(fmt::format("no data for input '{}'", value.name));
    run.arguments.push_back(it == inputs.end() ? ramp(value.type) : it->second);
  }
  return run;
}

void compare(const std::vector<RefTensor>& outputs, const std::vector<RefTensor>& expected, Outcome& outcome) {
  for (size_t k = 0; k < expected.size() && outcome.verdict == Verdict::kPassed; ++k) {
    const std::string why = k < outputs.size() ? difference(outputs[k], expected[k]) : "is missing";
    if (!why.empty()) set(outcome, Verdict::kWrong, fmt::format("output {} {}", k, why));
  }
}

void run_data_set(const Case& test, const DataSet& data, Backend& backend, const graph::OpTable& ops,
                  Outcome& outcome) {
  const Run run = import_run(test, data, ops, outcome);
  const std::vector<RefTensor> outputs = backend.run(run.graph, run.arguments);
  if (backend.gives_outputs()) compare(outputs, mapped(data.outputs, read_tensor_file), outcome);
}

// Inputs of one type become the first of them; false when no two are of one type.
bool feed_one_value(Run& run) {
  std::map<graph::ValueId, graph::ValueId> first_of;
  graph::Graph& g = run.graph;
  Run kept;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const auto alike = std::ranges::find_if(
        kept.graph.inputs, [&](graph::ValueId id) { return g.value(id).type == g.value(g.inputs[i]).type; });
    first_of[g.inputs[i]] = alike == kept.graph.inputs.end() ? g.inputs[i] : *alike;
    if (alike != kept.graph.inputs.end()) continue;
    kept.graph.inputs.push_back(g.inputs[i]);
    kept.arguments.push_back(run.arguments[i]);
  }
  if (kept.graph.inputs.size() == g.inputs.size()) return false;
  g.inputs = kept.graph.inputs;
  run.arguments = kept.arguments;
  for (graph::Node& node : g.nodes) {
    for (graph::ValueId& in : node.inputs) in = value_or(first_of, in, in);
  }
  for (graph::ValueId& out : g.outputs) out = value_or(first_of, out, out);
  return true;
}

void run_with_one_value(const Case& test, const DataSet& data, Backend& backend, const graph::OpTable& ops,
                        Outcome& outcome) {
  Run run = import_run(test, data, ops, outcome);
  std::vector<RefTensor> expected;
  try {
    if (!feed_one_value(run)) return set(outcome, Verdict::kNothing, "no two inputs of one type");
    run.graph = graph::compact(run.graph);
    graph::verify(run.graph, ops);
    expected = make_reference_backend(ops)->run(run.graph, run.arguments);
  } catch (const std::exception& e) {  // such as a value that is no index
    return set(outcome, Verdict::kNothing, e.what());
  }
  const std::vector<RefTensor> outputs = backend.run(run.graph, run.arguments);
  if (backend.gives_outputs()) compare(outputs, expected, outcome);
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

Outcome run_case(const Case& test, Backend& backend, const graph::OpTable& ops, Feed feed) {
  Outcome outcome;
  try {
    if (test.data.empty()) throw UserError("no data set");
    const auto run = feed == Feed::kData ? run_data_set : run_with_one_value;
    for (const DataSet& data : test.data) run(test, data, backend, ops, outcome);
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
