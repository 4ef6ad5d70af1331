#include <algorithm>

#include "graph/op.h"
#include "support/error.h"

namespace tw::graph {

void reject(const OpCall& call, std::string_view message) {
  throw NodeError(call.node.name, "node '{}' ({}): {}", call.node.name, call.node.op, message);
}

std::vector<TensorType> OpDef::output_types(const OpCall& call) const {
  const auto& [low, high] = inputs;
  if (call.inputs.size() < low || call.inputs.size() > high)
    reject(call, fmt::format("{} inputs, expected {}", call.inputs.size(),
                             low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high)));
  for (size_t k = 0; k < low; ++k) {
    if (!call.has(k)) reject(call, fmt::format("input {} is missing", k));
  }
  return infer(call);
}

OpTable::OpTable(std::vector<OpDef> rows) : rows_(std::move(rows)) {
  std::ranges::sort(rows_, {}, &OpDef::name);
  for (size_t i = 1; i < rows_.size(); ++i) {
    TW_CHECK(rows_[i - 1].name != rows_[i].name, "two operators are named '{}'", rows_[i].name);
  }
  for (const OpDef& row : rows_) {
    TW_CHECK(row.infer && row.reference && (row.te || row.op_class == OpClass::kOpaque), "operator '{}' is incomplete",
             row.name);
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto it = std::ranges::lower_bound(rows_, name, {}, &OpDef::name);
  return it != rows_.end() && it->name == name ? &*it : nullptr;
}

const OpDef& OpTable::at(std::string_view name) const {
  const OpDef* row = find(name);
  TW_CHECK(row != nullptr, "there is no operator '{}'", name);
  return *row;
}

OpCall make_call(const Graph& graph, const Node& node) {
  OpCall call{.node = node, .inputs = {}, .present = {}};
  for (ValueId in : node.inputs) {
    call.present.push_back(in != kAbsent);
    call.inputs.push_back(in == kAbsent ? TensorType{DataType::f32(), {0}} : graph.value(in).type);
  }
  return call;
}

std::vector<ValueId> append_node(Graph& graph, const OpTable& ops, Node node, NameSet* names) {
  const std::vector<TensorType> types = ops.at(node.op).output_types(make_call(graph, node));
  return graph.add_node(std::move(node), types, names);
}

}  // namespace tw::graph
