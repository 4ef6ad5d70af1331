#include "artefact/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "artefact/artefact_graph.h"
#include "artefact/bounded.h"
#include "artefact/resize.h"
#include "artefact/run_values.h"
#include "driver/artefact/extent_input.h"
#include "driver/compile_level.h"
#include "driver/tune/tolerance.h"
#include "graph/repeat.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/join.h"
#include "transform/loops/unroll.h"

namespace tw::artefact {
namespace {

using graph::RefTensor;
using graph::ValueId;

constexpr int kGroupTrials = 3, kManyTrials = 10;
constexpr int64_t kFewElements = 16384;
constexpr int64_t kModelSamples = 64;  // elements of random errors that bound a model's output
constexpr int64_t kMaxModelTrials = 4;

std::vector<Array> run_once(const std::vector<uint8_t>& artefact, const std::vector<Array>& inputs,
                            const SessionOptions& options) {
  return Session::load_memory(artefact, options).run(inputs);
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::ranges::equal(a, b, [](const Array& x, const Array& y) { return x.bytes == y.bytes; });
}

// What few trials that moved some quantized numbers say of all of them; an index or a truth that moves is another one.
double quantized_step(DataType type) { return type != DataType::boolean() && type.bits() <= 16 ? 1 : 0; }

std::vector<double> operator_bounds_of(const Bounded& bounded, size_t output) {
  return bounded.operator_bounds.empty() ? std::vector<double>() : bounded.operator_bounds[output];
}

// Elements of one row share the errors of its statistics, which few trials may all show small: of few elements more
// trials cost little.
int group_trials(const graph::Graph& body) {
  int64_t elements = 0;
  for (const graph::Value& value : body.values) elements = std::max(elements, value.type.elements());
  return elements <= kFewElements ? kManyTrials : kGroupTrials;
}

// The groups of an artefact, and those of the bodies of its loops, on the values that a run left.
class GroupChecker {
 public:
  GroupChecker(Session& session, const graph::OpTable& ops, const VerifyProgress& progress)
      : session_(session), ops_(ops), progress_(progress) {}

  std::vector<GroupCheck> run(const ArtefactGraph& model, RunValues& values) {
    total_ = count(model.graph) + 1;
    check(model.graph, model.plan, values);
    return std::move(checks_);
  }

 private:
  static int64_t count(const graph::Graph& graph) {
    int64_t groups = std::ssize(graph.nodes);
    for (const graph::Node& node : graph.nodes) {
      if (const graph::Node* loop = graph::loop_of(node)) groups += count(*loop->body);
    }
    return groups;
  }

  void check(const graph::Graph& graph, const plan::EntryPlan& plan, RunValues& values) {
    size_t loops = 0;
    for (size_t g = 0; g < graph.nodes.size(); ++g) {
      checks_.push_back(check_group(graph, plan.groups.at(g), g, values));
      if (progress_) progress_("verify", std::ssize(checks_), total_);
      if (const graph::Node* loop = graph::loop_of(graph.nodes[g]))
        check_last_turn(graph.nodes[g], *loop, plan.bodies.at(loops++), values);
      values.forget();
    }
  }

  const RefTensor& value(RunValues& values, const graph::Graph& graph, ValueId id) const {
    const RefTensor* value = values.find(id);
    TW_CHECK(value != nullptr, "value {} cannot be read back", graph.value(id).name);
    return *value;
  }

  // What the body was given in the last turn, and what it made, are rows of what the loop read and wrote.
  void check_last_turn(const graph::Node& group, const graph::Node& loop, const plan::EntryPlan& plan,
                       RunValues& outside) {
    const graph::Repeat repeat = graph::repeat_of(loop);
    const int64_t last = repeat.turns - 1;
    std::vector<RefTensor> inputs, outputs, rows;
    const auto given = [&](ValueId id) { return *outside.find(group.inputs.at(index_of(group.body->inputs, id))); };
    for (const ValueId id : loop.outputs) {
      const RefTensor* output = outside.find(group.outputs.at(index_of(group.body->outputs, id)));
      if (output == nullptr) return;  // of a smaller extent
      outputs.push_back(*output);
    }
    for (size_t k = 0; k < loop.inputs.size(); ++k) {
      if (k < repeat.carried && last > 0) {
        inputs.push_back(outputs[k].row(repeat.output_row(k, last - 1)));
      } else if (k >= repeat.carried && k < repeat.carried + repeat.scanned) {
        inputs.push_back(given(loop.inputs[k]).row(repeat.input_row(k - repeat.carried, last)));
      } else {
        inputs.push_back(given(loop.inputs[k]));
      }
    }
    for (size_t j = 0; j < outputs.size(); ++j) rows.push_back(outputs[j].row(repeat.output_row(j, last)));
    RunValues values(*loop.body, session_, inputs, rows);
    check(*loop.body, plan, values);
  }

  GroupCheck check_group(const graph::Graph& graph, const plan::GroupPlan& plan, size_t index, RunValues& values) {
    const graph::Node& node = graph.nodes[index];
    GroupCheck check{.group = node.name, .family = plan.family, .outputs = {}};
    if (!plan::has_code(plan)) return check;
    std::vector<RefTensor> inputs;
    for (const ValueId id : node.inputs) {
      if (values.are_cut() && values.find(id) == nullptr) return check;
      inputs.push_back(value(values, graph, id));
    }
    const Bounded want = evaluate_bounded(*node.body, ops_, inputs, group_trials(*node.body));
    check.has_larger_bound = !want.operator_bounds.empty();
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const RefTensor* got = values.find(node.outputs[k]);
      // An output stored in the place of a view that leaves the graph is checked through that view.
      if (got != nullptr)
        check.outputs.push_back(driver::compare(graph.value(node.outputs[k]).name, *got, want.values[k], want.bounds[k],
                                                operator_bounds_of(want, k)));
    }
    return check;
  }

  Session& session_;
  const graph::OpTable& ops_;
  const VerifyProgress& progress_;
  std::vector<GroupCheck> checks_;
  int64_t total_ = 0;
};

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
  const Bounded want =
      evaluate_bounded(transform::unroll_all(source, ops), ops, references, trials_for(source), numerics);
  std::vector<driver::WorstElement> worst;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Shape& shape = outputs[k].type.shape;
    // Of the operators as they are defined: a model that Winograd computes has the bound of one that it does not.
    RefTensor bounds{.type = {DataType::f64(), want.values[k].type.shape}};
    bounds.floats = want.operator_bounds.empty() ? want.bounds[k] : want.operator_bounds[k];
    double largest = bounds.floats.empty() ? 0 : *std::ranges::max_element(bounds.floats);
    if (want.is_behind_moved_step[k])
      largest = std::max(largest, driver::kSafety * driver::root_mean_square(bounds.floats));
    if (!want.values[k].is_float()) largest = std::min(largest, quantized_step(want.values[k].type.type));
    bounds = resized(bounds, shape);
    for (double& bound : bounds.floats) bound = std::max(bound, largest);
    worst.push_back(driver::compare(source.value(source.outputs[k]).name, to_reference(outputs[k]),
                                    resized(want.values[k], shape), bounds.floats));
  }
  return worst;
}

// What the model takes of the inputs of the artefact's graph; nothing at other extents than the model has.
std::optional<std::vector<Array>> inputs_for(const graph::Graph& source, const ArtefactGraph& model,
                                             const GraphArrays& arrays) {
  for (size_t k = 0; k < arrays.outputs.size(); ++k) {
    if (arrays.outputs[k].type != source.value(source.outputs[k]).type) return std::nullopt;
  }
  std::map<std::string, const Array*> by_name;
  for (size_t i = 0; i < arrays.inputs.size(); ++i)
    by_name[model.graph.value(model.graph.inputs[i]).name] = &arrays.inputs[i];
  for (const format::Extent& extent : model.extents) {
    if (to_reference(*by_name.at(driver::input_of(extent))).ints[0] != extent.bound) return std::nullopt;
  }
  return mapped(source.inputs, [&](ValueId id) { return *by_name.at(source.value(id).name); });
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
  RunValues values(model.graph, session, mapped(arrays.inputs, to_reference), mapped(arrays.outputs, to_reference));
  report.groups = GroupChecker(session, ops, progress).run(model, values);
  const driver::Rounded rounded = driver::count_rounded(model.graph);
  const NumericsOptions numerics = {rounded.to_bf16 > 0   ? Operands::kBf16
                                    : rounded.to_tf32 > 0 ? Operands::kTf32
                                                          : Operands::kAsGiven,
                                    model.dtype};
  const std::optional<std::vector<Array>> given = source == nullptr ? std::nullopt : inputs_for(*source, model, arrays);
  report.outputs = given ? check_model(*source, ops, numerics, *given, arrays.outputs)
                         : check_model(without_groups(model.graph), ops, {}, arrays.inputs, arrays.outputs);
  return report;
}

VerifyReport verify_graph(const graph::Graph& source, const driver::CompileOptions& options,
                          const std::vector<Array>& inputs, const VerifyProgress& progress) {
  return verify_artefact(driver::artefact_bytes(driver::compile_graph(source, options)), &source, inputs, progress);
}

}  // namespace tw::artefact
