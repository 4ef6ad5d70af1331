#include "driver/entry_reasons.h"

#include "ops/winograd.h"
#include "support/join.h"
#include "transform/roles.h"

namespace tw::driver {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using transform::EdgeFate;

class ReasonFinder {
 public:
  ReasonFinder(const Graph& groups, const transform::ReasonLog& log, const std::vector<LeftOut>& left_out)
      : groups_(groups), log_(log), left_out_(left_out), producers_(groups.producers()) {
    for (const Node& group : groups.nodes) {
      for (const Node& node : group.body->nodes) {
        std::set<ValueId> seen = {graph::kAbsent};
        for (const ValueId in : node.inputs)
          if (seen.insert(in).second) ++readers_[group.body->value(in).name];
      }
    }
  }

  plan::Reasons run() {
    for (const Node& group : groups_.nodes) {
      for (const Node& reader : group.body->nodes) add_edges(group, reader);
    }
    for (size_t i = 0; i < groups_.values.size(); ++i) {
      const graph::Value& value = groups_.values[i];
      if (value.is_constant()) continue;
      const Why* why = log_.find_layout(value.name);
      out_.values.push_back({value.name, why != nullptr ? *why : because("off", "{}", kNoPass)});
      std::vector<std::pair<std::string, double>>& numbers = out_.values.back().why.numbers;
      numbers.insert(numbers.begin(), {"value_bytes", static_cast<double>(value.type.bytes())});
    }
    for (const auto& [node, why] : log_.products()) out_.products.push_back({node, why});
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kNoPass = "no pass that decides this has run";

  void add_edges(const Node& group, const Node& reader) {
    const Graph& body = *group.body;
    std::set<ValueId> seen = {graph::kAbsent};  // one edge, however often the reader reads the value
    for (const ValueId in : reader.inputs) {
      if (!seen.insert(in).second) continue;
      if (const int inner = body.producer(in); inner >= 0) {
        add({body.value(in).name, body.nodes[inner].name, reader.name, {}, group.name, group.name, true, {}}, body, in,
            reader);
        continue;
      }
      const int64_t position = index_of(body.inputs, in);
      const int p = position < 0 ? -1 : producers_[group.inputs[position]];
      if (p < 0) continue;
      const Node& from = groups_.nodes[p];
      const ValueId written = from.body->outputs[index_of(from.outputs, group.inputs[position])];
      const int node = from.body->producer(written);
      const std::string& name = node < 0 ? from.name : from.body->nodes[node].name;
      add({body.value(in).name, name, reader.name, {}, from.name, group.name, false, {}}, body, in, reader);
    }
  }

  void add(plan::EdgeReason edge, const Graph& body, ValueId value, const Node& reader) {
    const Why* why = log_.find(edge.is_fused ? EdgeFate::kFused : EdgeFate::kApart, body, value, reader);
    edge.to_value = body.value(reader.outputs.at(0)).name;
    edge.why = why != nullptr ? *why : because("off", "{}", kNoPass);
    if (!edge.is_fused) {
      say_of_left_out(edge.why, body, value, reader);
      edge.why.numbers.emplace_back("readers", readers_.at(body.value(value).name));
      if (body.value(value).type.elements() > 0)
        edge.why.numbers.emplace_back("readings", readings_of(body, value, reader));
    }
    edge.why.numbers.insert(edge.why.numbers.begin(),
                            {"value_bytes", static_cast<double>(body.value(value).type.bytes())});
    out_.edges.push_back(std::move(edge));
  }

  // How many times `reader` reads each element of the value, padding's turns included.
  double readings_of(const Graph& body, ValueId value, const Node& reader) const {
    const auto elements = [&](ValueId id) { return static_cast<double>(body.value(id).type.elements()); };
    const auto input = static_cast<size_t>(std::ranges::find(reader.inputs, value) - reader.inputs.begin());
    const auto times = static_cast<double>(std::ranges::count(reader.inputs, value));
    if (reader.op == "concat") return times;
    if (reader.op == "update_slice" && input > 0) return 1;
    double points = elements(reader.outputs[0]);
    const size_t filters = reader.op == "winograd_conv" ? ops::kWinogradKernels : 1;
    const bool is_factor = input == 0 || input == filters;  // others are added to sums
    const Shape& data = body.value(reader.inputs[0]).type.shape;
    if (is_factor && reader.op.starts_with("matmul") && !data.empty())
      points *= static_cast<double>(data.back()) * times;  // x x has it as both factors
    if (is_factor && (reader.op.starts_with("conv") || reader.op == "winograd_conv")) {
      if (reader.op == "conv_transpose") points = elements(reader.inputs[0]);  // each times a filter of its channel
      const ValueId w = reader.inputs.at(filters);
      const Shape& shape = body.value(w).type.shape;
      points *= elements(w) / static_cast<double>(shape[0]);
      const size_t phases = reader.op == "conv_phases" ? shape.size() / 2 - 1 : 0;  // of each, an axis of w
      for (size_t d = 0; d < phases; ++d) points /= static_cast<double>(shape[2 + d]);
    }
    const bool pools = reader.op.ends_with("_pool") && reader.has_attr("kernel_shape");
    if (pools) points *= static_cast<double>(num_elements(reader.ints_attr("kernel_shape")));
    if (!pools && !transform::reads_a_part(reader)) points = std::max(points, elements(value));
    return points / elements(value);
  }

  // That a pass would have fused the edge, had it not been slower.
  void say_of_left_out(Why& said, const Graph& body, ValueId value, const Node& reader) const {
    for (const LeftOut& pass : left_out_) {
      const Why* why = pass.log.find(EdgeFate::kFused, body, value, reader);
      if (why == nullptr) continue;
      said = because("raced", "pass {} would fuse it ({}: {}); it was measured, and left out", pass.race.pass,
                     why->rule, why->text);
      said.numbers = {{"apart_us", pass.race.us}, {"fused_us", pass.race.usual_us}};
    }
  }

  const Graph& groups_;
  const transform::ReasonLog& log_;
  const std::vector<LeftOut>& left_out_;
  std::vector<int> producers_;
  std::map<std::string, int> readers_;  // operators that read a value, by its name
  plan::Reasons out_;
};

}  // namespace

plan::Reasons reasons_of(const graph::Graph& groups, const transform::ReasonLog& log,
                         const std::vector<LeftOut>& left_out) {
  return ReasonFinder(groups, log, left_out).run();
}

void say_of_kernels(const Graph& groups, const std::vector<GroupCode>& code, plan::Reasons& reasons) {
  std::map<std::string, size_t> group_of;  // by the values that nodes of a group compute
  for (size_t g = 0; g < groups.nodes.size(); ++g) {
    for (const Node& node : groups.nodes[g].body->nodes)
      group_of[groups.nodes[g].body->value(node.outputs[0]).name] = g;
  }
  for (plan::EdgeReason& edge : reasons.edges) {
    const GroupCode& group = code.at(group_of.at(edge.to_value));
    if (!edge.is_fused || group.lowered.loops == nullptr) continue;
    const size_t kernels = group.lowered.loops->kernels.size();
    edge.why.numbers.emplace_back("kernels", kernels);
    if (kernels == 1) continue;
    int64_t bytes = 0;
    for (const auto& [name, param] : group.params) bytes += param.kind == Param::Kind::kTemporary ? param.bytes : 0;
    edge.why.numbers.emplace_back("between_bytes", bytes);
    edge.why.text += fmt::format(", in a group of {} kernels", kernels);
  }
}

}  // namespace tw::driver
