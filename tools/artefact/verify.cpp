#include "artefact/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "artefact/artefact_graph.h"
#include "artefact/bounded.h"
#include "artefact/run_values.h"
#include "driver/compile_level.h"
#include "ops/list.h"
#include "support/error.h"

namespace tw::artefact {
namespace {

using graph::RefTensor;
using graph::ValueId;

constexpr int kGroupTrials = 3;
constexpr int64_t kModelSamples = 64;  // elements of random errors that bound a model's output
constexpr int64_t kMaxModelTrials = 4;

std::vector<Array> run_once(const std::vector<uint8_t>& artefact, const std::vector<Array>& inputs,
                            const SessionOptions& options) {
  return Session::load_memory(artefact, options).run(inputs);
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::ranges::equal(a, b, [](const Array& x, const Array& y) { return x.bytes == y.bytes; });
}

std::vector<double> operator_bounds_of(const Bounded& bounded, size_t output) {
  return bounded.operator_bounds.empty() ? std::vector<double>() : bounded.operator_bounds[output];
}

GroupCheck check_group(const ArtefactGraph& model, size_t index, RunValues& values, const graph::OpTable& ops) {
  const graph::Node& node = model.graph.nodes[index];
  GroupCheck check{.group = node.name, .family = model.plan.groups.at(index).family, .outputs = {}};
  if (check.family == plan::kViewFamily) return check;
  std::vector<RefTensor> inputs;
  for (const ValueId id : node.inputs) {
    const RefTensor* value = values.find(id);
    TW_CHECK(value != nullptr, "value {} cannot be read back", model.graph.value(id).name);
    inputs.push_back(*value);
  }
  const Bounded want = evaluate_bounded(*node.body, ops, inputs, kGroupTrials);
  check.has_larger_bound = !want.operator_bounds.empty();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const RefTensor* got = values.find(node.outputs[k]);
    // An output stored in the place of a view that leaves the graph is checked through that view.
    if (got != nullptr)
      check.outputs.push_back(driver::compare(model.graph.value(node.outputs[k]).name, *got, want.values[k],
                                              want.bounds[k], operator_bounds_of(want, k)));
  }
  return check;
}

// A single element says little of the size of its error: small outputs are sampled more often.
int trials_for(const graph::Graph& graph) {
  int64_t smallest = kModelSamples;
  for (const ValueId id : graph.outputs)
    smallest = std::min(smallest, std::max<int64_t>(1, graph.value(id).type.elements()));
  return static_cast<int>(std::min(kMaxModelTrials, (kModelSamples + smallest - 1) / smallest));
}

std::vector<driver::WorstElement> check_model(const graph::Graph& source, const graph::OpTable& ops,
                                              const NumericsOptions& numerics, const std::vector<Array>& inputs,
                                              const std::vector<Array>& outputs) {
  std::vector<RefTensor> references;
  for (const Array& input : inputs) references.push_back(to_reference(input));
  Bounded want = evaluate_bounded(source, ops, references, trials_for(source), numerics);
  std::vector<driver::WorstElement> worst;
  for (size_t k = 0; k < outputs.size(); ++k) {
    // Of the operators as they are defined: a model that Winograd computes has the bound of one that it does not.
    std::vector<double>& bounds = want.operator_bounds.empty() ? want.bounds[k] : want.operator_bounds[k];
    const double largest = bounds.empty() ? 0 : *std::ranges::max_element(bounds);
    std::ranges::fill(bounds, largest);
    worst.push_back(
        driver::compare(source.value(source.outputs[k]).name, to_reference(outputs[k]), want.values[k], bounds));
  }
  return worst;
}

}  // namespace

int64_t GroupCheck::beyond_operator() const {
  int64_t beyond = 0;
  for (const driver::WorstElement& w : outputs) beyond += w.beyond_operator;
  return beyond;
}

bool GroupCheck::ok() const {
  return std::ranges::all_of(outputs, [](const driver::WorstElement& w) { return w.ok(); });
}

bool VerifyReport::ok() const {
  return same_bits_for_threads && same_bits_apart &&
         std::ranges::all_of(outputs, [](const driver::WorstElement& w) { return w.ok(); }) &&
         std::ranges::all_of(groups, [](const GroupCheck& g) { return g.ok(); });
}

VerifyReport verify_artefact(const std::vector<uint8_t>& artefact, const graph::Graph* source,
                             const std::vector<Array>& inputs, const VerifyProgress& progress, const Verified& which) {
  const graph::OpTable ops = ops::all_ops();
  VerifyReport report;
  const SessionOptions options = {.level = which.level, .function = which.function};
  SessionOptions alone = options;
  alone.threads = 1;
  const std::vector<Array> outputs = run_once(artefact, inputs, options);
  report.same_bits_for_threads = same_bits(outputs, run_once(artefact, inputs, alone));
  Session session = Session::load_memory(keep_buffers_apart(artefact), options);
  report.same_bits_apart = same_bits(outputs, session.run(inputs));
  const ArtefactGraph model = read_graph(artefact, session.target(), session.bound_entry());
  report.target = session.target();
  report.entry = model.plan.name;
  const GraphArrays arrays = arrays_of(model, inputs, outputs);
  RunValues values(model.graph, session, arrays.inputs, arrays.outputs);
  const auto total = static_cast<int64_t>(model.graph.nodes.size()) + 1;
  for (size_t g = 0; g < model.graph.nodes.size(); ++g) {
    report.groups.push_back(check_group(model, g, values, ops));
    if (progress) progress("verify", static_cast<int64_t>(g) + 1, total);
  }
  const driver::Rounded rounded = driver::count_rounded(model.graph);
  const NumericsOptions numerics = {rounded.to_bf16 > 0   ? Operands::kBf16
                                    : rounded.to_tf32 > 0 ? Operands::kTf32
                                                          : Operands::kAsGiven,
                                    model.dtype};
  report.outputs = source != nullptr ? check_model(*source, ops, numerics, arrays.inputs, arrays.outputs)
                                     : check_model(without_groups(model.graph), ops, {}, arrays.inputs, arrays.outputs);
  return report;
}

VerifyReport verify_graph(const graph::Graph& source, const driver::CompileOptions& options,
                          const std::vector<Array>& inputs, const VerifyProgress& progress) {
  return verify_artefact(driver::artefact_bytes(driver::compile_graph(source, options)), &source, inputs, progress);
}

}  // namespace tw::artefact
