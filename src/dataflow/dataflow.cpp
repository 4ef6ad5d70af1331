#include "dataflow/dataflow.h"

#include <algorithm>
#include <set>

#include "dataflow/work.h"
#include "graph/repeat.h"

namespace tw::dataflow {
namespace {

using graph::Graph;
using graph::kAbsent;
using graph::Node;
using graph::ValueId;

// The node alone: all that it reads is an input.
Graph graph_of(const Graph& graph, const Node& node) {
  Graph alone;
  alone.name = node.name;
  std::map<ValueId, ValueId> ids = {{kAbsent, kAbsent}};
  Node copy = node;
  for (ValueId& in : copy.inputs) {
    if (!ids.contains(in)) ids[in] = alone.add_input(graph.value(in).name, graph.value(in).type);
    in = ids.at(in);
  }
  for (ValueId& out : copy.outputs) {
    out = alone.add_value(graph.value(out).name, graph.value(out).type);
    alone.outputs.push_back(out);
  }
  alone.nodes.push_back(std::move(copy));
  return alone;
}

// Operands that are one value have an input of the program each: the value's elements are read once.
int64_t words_read(const graph::GroupProgram& te, const Graph& body) {
  std::map<ValueId, int64_t> words;
  const std::map<std::string, int64_t> of_inputs = dataflow::words_read(te.program);
  for (size_t i = 0; i < te.inputs.size(); ++i) words[te.inputs[i]] += of_inputs.at(te.program.inputs[i].name);
  int64_t all = 0;
  for (const auto& [id, read] : words) all += std::min(read, body.value(id).type.elements());
  return all;
}

// Of a group: of its operators, as if each were alone.
double flop_of(const Graph& graph, const Node& node, const graph::OpTable& ops) {
  if (!node.is_group()) return dataflow::flop_of(graph::to_te(graph_of(graph, node), ops).program);
  double flop = 0;
  for (const Node& inner : node.body->nodes) flop += flop_of(*node.body, inner, ops);
  return flop;
}

Operator operator_of(const Graph& graph, const Node& node, const graph::OpTable& ops);

// Of all turns: what they compute, of the class of what computes most. A loop reads and writes its tensors once.
Operator operator_of_loop(const Graph& graph, const Node& node, const Node& loop, const graph::OpTable& ops) {
  Operator out{node.name, node.op};
  double most = -1;
  for (const Node& inner : loop.body->nodes) {
    const Operator part = operator_of(*loop.body, inner, ops);
    out.flop += part.flop * static_cast<double>(graph::repeat_of(loop).turns);
    if (part.flop <= most) continue;
    most = part.flop;
    out.operator_class = part.operator_class;
    out.space = part.space;
  }
  const std::set<ValueId> read(node.inputs.begin(), node.inputs.end());
  for (const ValueId id : read) out.words_read += graph.value(id).type.elements();
  for (const graph::Value& value : loop.body->values) {
    const int64_t elements = value.type.elements();
    if (value.is_constant() && elements > 1) out.words_read += elements;
  }
  for (const ValueId id : node.outputs) out.words_written += graph.value(id).type.elements();
  return out;
}

Operator operator_of(const Graph& graph, const Node& node, const graph::OpTable& ops) {
  const Node* loop = node.op == graph::kRepeat ? &node : graph::loop_of(node);
  if (loop != nullptr) return operator_of_loop(graph, node, *loop, ops);
  const Graph body = node.is_group() ? *node.body : graph_of(graph, node);
  const graph::GroupProgram te = graph::to_te(body, ops);
  Operator out{node.name, node.op, space_of(te.program)};
  out.operator_class = class_of(out.space);
  out.flop = flop_of(graph, node, ops);
  out.is_view = is_view(te.program);
  if (out.is_view) return out;
  out.words_read = words_read(te, body);
  out.words_written = words_written(te.program);
  return out;
}

}  // namespace

Dataflow analyze(const Graph& graph, const graph::OpTable& ops) {
  Dataflow out;
  const std::vector<int> producers = graph.producers();
  const auto add_edge = [&](ValueId id, int to) {
    const graph::Value& value = graph.value(id);
    out.edges.push_back({producers[static_cast<size_t>(id)], to, value.name, value.type, value.is_constant()});
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    out.operators.push_back(operator_of(graph, node, ops));
    std::set<ValueId> seen = {kAbsent};
    for (const ValueId in : node.inputs) {
      if (seen.insert(in).second) add_edge(in, static_cast<int>(n));
    }
  }
  for (const ValueId id : graph.outputs) add_edge(id, -1);
  return out;
}

std::vector<ClassShare> shares_of(const std::vector<Operator>& operators) {
  std::vector<ClassShare> shares;
  for (const OperatorClass c : kOperatorClasses) shares.push_back({c});
  for (const Operator& o : operators) {
    ClassShare& share = shares[static_cast<size_t>(o.operator_class)];
    ++share.operators;
    share.flop += o.flop;
    share.words += static_cast<double>(o.words());
  }
  return shares;
}

}  // namespace tw::dataflow
