#include "transform/in_place.h"

#include <algorithm>

#include "support/join.h"
#include "transform/roles.h"

namespace tw::transform {

InPlace in_place(const graph::OpTable& ops, const Graph& graph, const Node& group, ValueId before, ValueId after) {
  const int64_t input = index_of(group.inputs, before);
  if (input < 0) return InPlace::kBlind;
  const Graph& body = *group.body;
  const ValueId inner = body.inputs[static_cast<size_t>(input)];
  const auto is_stored_alike = [&](ValueId out) { return graph.value(out).layout == graph.value(before).layout; };
  if (!std::ranges::all_of(group.outputs, is_stored_alike)) return InPlace::kNot;
  const Node& last = body.nodes.back();
  const auto reads_of_state = [&](const Node& node) { return std::ranges::count(node.inputs, inner); };
  const auto before_last = std::span(body.nodes).first(body.nodes.size() - 1);
  if (group.outputs.size() == 1 && last.op == "update_slice" && last.inputs[0] == inner && reads_of_state(last) == 1 &&
      std::ranges::all_of(before_last, [&](const Node& node) { return reads_of_state(node) == 0; }))
    return InPlace::kSlice;
  // Every node computes points of one shape: those that the state has. So one kernel has all outputs, which holds what
  // it stores of a point before it stores any of it (schedule/emit.cpp).
  const bool points = std::ranges::all_of(body.nodes, [&](const Node& node) {
    const bool reads = std::ranges::count(node.inputs, inner) > 0;
    return is_pointwise(ops, node) && node.outputs.size() == 1 &&
           (!reads || body.value(node.outputs[0]).type.shape == graph.value(before).type.shape);
  });
  const bool whole = std::ranges::all_of(body.nodes, [&](const Node& node) {
    return body.value(node.outputs[0]).type.shape == graph.value(after).type.shape;
  });
  return points && whole ? InPlace::kPoint : InPlace::kNot;
}

}  // namespace tw::transform
