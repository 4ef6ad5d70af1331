#include "graph/repeat.h"

#include "graph/error_output.h"
#include "support/error.h"

namespace tw::graph {
namespace {

int64_t row_of(int64_t turn, int64_t turns, bool backwards) { return backwards ? turns - 1 - turn : turn; }

std::vector<int64_t> flags(const Node& node, const std::string& key, size_t count) {
  std::vector<int64_t> flags = node.ints_attr_or(key, std::vector<int64_t>(count, 0));
  TW_CHECK(flags.size() == count, "loop '{}': attribute '{}' has {} numbers for {}", node.name, key, flags.size(),
           count);
  return flags;
}

}  // namespace

int64_t Repeat::input_row(size_t input, int64_t turn) const {
  return row_of(turn, turns, inputs_backwards[input] != 0);
}

int64_t Repeat::output_row(size_t output, int64_t turn) const {
  return row_of(turn, turns, outputs_backwards[output] != 0) % rows[output];
}

Repeat repeat_of(const Node& node) {
  TW_CHECK(node.op == kRepeat && node.body != nullptr, "node '{}' ({}) is no loop", node.name, node.op);
  Repeat repeat;
  repeat.turns = node.int_attr("turns");
  repeat.carried = static_cast<size_t>(node.int_attr("carried"));
  repeat.scanned = static_cast<size_t>(node.int_attr("scanned"));
  repeat.rows = node.ints_attr("rows");
  repeat.inputs_backwards = flags(node, "inputs_backwards", repeat.scanned);
  repeat.outputs_backwards = flags(node, "outputs_backwards", repeat.rows.size());
  return repeat;
}

Attrs attrs_of(const Repeat& repeat) {
  return {{"turns", repeat.turns},
          {"carried", static_cast<int64_t>(repeat.carried)},
          {"scanned", static_cast<int64_t>(repeat.scanned)},
          {"rows", repeat.rows},
          {"inputs_backwards", repeat.inputs_backwards},
          {"outputs_backwards", repeat.outputs_backwards}};
}

std::string body_prefix(const Graph& graph, const Node& loop) { return graph.value(loop.outputs.at(0)).name + "/"; }

Graph with_prefix(Graph body, const std::string& prefix) {
  for (Value& value : body.values) {
    if (value.name != kErrorOutput) value.name = prefix + value.name;
  }
  for (Node& node : body.nodes) {
    if (const Node* loop = loop_of(node)) node.body = with_loop_body(*node.body, with_prefix(*loop->body, prefix));
  }
  return body;
}

const Node* loop_of(const Node& group) {
  const bool is_loop = group.is_group() && group.body->nodes.size() == 1 && group.body->nodes[0].op == kRepeat;
  return is_loop ? &group.body->nodes[0] : nullptr;
}

std::shared_ptr<const Graph> with_loop_body(const Graph& group, Graph body) {
  Graph with = group;
  with.nodes.at(0).body = std::make_shared<const Graph>(std::move(body));
  return std::make_shared<const Graph>(std::move(with));
}

}  // namespace tw::graph
