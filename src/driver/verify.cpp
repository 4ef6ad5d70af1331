#include "driver/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "driver/tolerance.h"
#include "ops/list.h"
#include "support/error.h"
#include "te/materialize.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::RefTensor;
using graph::ValueId;

constexpr int kGroupTrials = 3;
constexpr int kModelTrials = 1;

// Values of a finished run by name: inputs, outputs, and what the arena holds.
class RunValues {
 public:
  RunValues(const graph::Graph& graph, Session& session, const std::vector<Array>& inputs,
            const std::vector<Array>& outputs)
      : graph_(graph), session_(session) {
    for (size_t i = 0; i < inputs.size(); ++i) known_[graph.inputs[i]] = to_reference(inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) known_[graph.outputs[i]] = to_reference(outputs[i]);
    for (const ValueId id : graph.outputs) know_sources_of_views(id);
    const std::vector<std::string> names = session.buffer_names();
    for (size_t b = 0; b < names.size(); ++b) {
      if (!names[b].empty()) buffers_.emplace(names[b], static_cast<int>(b));
    }
  }

  // The value in logical order; nothing when it has no place of its own (a view, or stored in an output).
  const RefTensor* find(ValueId id) {
    if (const auto it = known_.find(id); it != known_.end()) return &it->second;
    const graph::Value& value = graph_.value(id);
    if (value.is_constant()) return &(known_[id] = RefTensor::from_bytes(value.type, *value.constant));
    const int producer = graph_.producer(id);
    const auto buffer = buffers_.find(value.name);
    if (buffer != buffers_.end())
      return &(known_[id] = RefTensor::from_bytes(value.type, logical(value, session_.read_buffer(buffer->second))));
    if (producer < 0 || !transform::is_view(graph_, graph_.nodes[producer])) return nullptr;
    return find_view(id, graph_.nodes[producer]);
  }

 private:
  // A value that leaves the model through views lies in the caller's tensor: its elements are those of the output.
  void know_sources_of_views(ValueId id) {
    for (int p = graph_.producer(id); p >= 0 && transform::is_view(graph_, graph_.nodes[p]); p = graph_.producer(id)) {
      const ValueId source = graph_.nodes[p].inputs[0];
      if (graph_.value(source).is_constant() || known_.count(source) != 0) return;
      const graph::Value& from = graph_.value(id);
      const graph::Value& to = graph_.value(source);
      const std::vector<std::byte> stored =
          te::materialize(known_.at(id).to_bytes(), from.type.type.bytes(), from.type.shape, from.layout);
      known_[source] = RefTensor::from_bytes(to.type, logical(to, stored));
      id = source;
    }
  }

  static std::vector<std::byte> logical(const graph::Value& value, const std::vector<std::byte>& stored) {
    const Shape storage = value.layout.storage_shape(value.type.shape);
    return te::materialize(stored, value.type.type.bytes(), storage, value.layout.inverse(value.type.shape));
  }

  const RefTensor* find_view(ValueId id, const graph::Node& group) {
    const RefTensor* source = find(group.inputs[0]);
    if (source == nullptr) return nullptr;
    const graph::Value& from = graph_.value(group.inputs[0]);
    const graph::Value& to = graph_.value(id);
    const std::vector<std::byte> stored =
        te::materialize(source->to_bytes(), from.type.type.bytes(), from.type.shape, from.layout);
    return &(known_[id] = RefTensor::from_bytes(to.type, logical(to, stored)));
  }

  const graph::Graph& graph_;
  Session& session_;
  std::map<ValueId, RefTensor> known_;
  std::map<std::string, int> buffers_;
};

std::vector<Array> run_once(const std::vector<uint8_t>& artefact, const std::vector<Array>& inputs, int threads) {
  return Session::load_memory(artefact, {threads, false}).run(inputs);
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].bytes != b[i].bytes) return false;
  }
  return a.size() == b.size();
}

GroupCheck check_group(const Compiled& compiled, size_t index, RunValues& values, const graph::OpTable& ops) {
  const graph::Node& node = compiled.graph.nodes[index];
  GroupCheck check{node.name, compiled.plan.groups[index].family, {}};
  if (check.family == "view") return check;
  std::vector<RefTensor> inputs;
  for (const ValueId id : node.inputs) {
    const RefTensor* value = values.find(id);
    TW_CHECK(value != nullptr, "value {} cannot be read back", compiled.graph.value(id).name);
    inputs.push_back(*value);
  }
  const Bounded want = evaluate_bounded(*node.body, ops, inputs, kGroupTrials);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const RefTensor* got = values.find(node.outputs[k]);
    // An output stored in the place of a view that leaves the graph is checked through that view.
    if (got != nullptr)
      check.outputs.push_back(
          compare(compiled.graph.value(node.outputs[k]).name, *got, want.values[k], want.bounds[k]));
  }
  return check;
}

}  // namespace

bool GroupCheck::ok() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const WorstElement& w) { return w.ok(); });
}

bool VerifyReport::ok() const {
  return same_bits_for_threads &&
         std::all_of(outputs.begin(), outputs.end(), [](const WorstElement& w) { return w.ok(); }) &&
         std::all_of(groups.begin(), groups.end(), [](const GroupCheck& g) { return g.ok(); });
}

WorstElement compare(const std::string& name, const RefTensor& got, const RefTensor& want,
                     const std::vector<double>& bounds) {
  WorstElement worst{name, 0, 0, 0, 0, 0, want.type.elements()};
  double worst_ratio = -1;
  for (int64_t i = 0; i < worst.elements; ++i) {
    const double a = got.at(i);
    const double b = want.at(i);
    const bool equal = a == b || (std::isnan(a) && std::isnan(b));
    const double bound = want.is_float() ? bounds[i] : 0;
    const double error = equal ? 0 : std::fabs(a - b);
    const bool ok = equal || error <= bound;
    worst.wrong += ok ? 0 : 1;
    double ratio = bound > 0 ? error / bound : (ok ? 0 : std::numeric_limits<double>::infinity());
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst.index = i;
    worst.got = a;
    worst.want = b;
    worst.bound = bound;
  }
  return worst;
}

VerifyReport verify_graph(const graph::Graph& source, const CompileOptions& options, const std::vector<Array>& inputs,
                          const std::function<void(std::string_view, int64_t, int64_t)>& progress) {
  const graph::OpTable ops = ops::all_ops();
  CompileOptions separate = options;
  separate.reuse_memory = false;
  const Compiled compiled = compile_graph(source, separate);
  const std::vector<uint8_t> artefact = artefact_bytes(compiled);
  Session session = Session::load_memory(artefact, {});
  const std::vector<Array> outputs = session.run(inputs);
  VerifyReport report;
  report.same_bits_for_threads = same_bits(outputs, run_once(artefact, inputs, 1));
  RunValues values(compiled.graph, session, inputs, outputs);
  const auto total = static_cast<int64_t>(compiled.graph.nodes.size()) + 1;
  for (size_t g = 0; g < compiled.graph.nodes.size(); ++g) {
    report.groups.push_back(check_group(compiled, g, values, ops));
    if (progress) progress("verify", static_cast<int64_t>(g) + 1, total);
  }
  std::vector<RefTensor> references;
  for (const Array& input : inputs) references.push_back(to_reference(input));
  Bounded model = evaluate_bounded(source, ops, references, kModelTrials);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const double largest =
        model.bounds[k].empty() ? 0 : *std::max_element(model.bounds[k].begin(), model.bounds[k].end());
    std::fill(model.bounds[k].begin(), model.bounds[k].end(), largest);
    report.outputs.push_back(
        compare(source.value(source.outputs[k]).name, to_reference(outputs[k]), model.values[k], model.bounds[k]));
  }
  return report;
}

}  // namespace tw::driver
