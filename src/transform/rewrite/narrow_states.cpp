#include <set>

#include "transform/rewrite/states.h"

namespace tw::transform {
namespace {

class StateNarrower {
 public:
  StateNarrower(const Graph& graph, const graph::OpTable& ops, DataType dtype)
      : in_(graph), ops_(ops), dtype_(dtype), out_(graph), names_(graph) {
    out_.nodes.clear();
  }

  Graph run(const std::vector<StateNames>& states) {
    for (const StateNames& names : states) {
      if (!names.changes()) continue;
      const ValueId before = in_.find_value(names.before), after = in_.find_value(names.after);
      in_.value(before).type.type == DataType::f32() ? take(before, after) : take_inside(before, after);
    }
    if (updates_.empty()) return in_;
    for (const Node& node : in_.nodes) add(node);
    return graph::compact(out_);
  }

 private:
  // The state takes rows: before its update, and behind it.
  struct Update {
    ValueId before, after;
  };

  const Node* producer(ValueId id, std::string_view op) const {
    const int n = in_.producer(id);
    const Node* node = n < 0 ? nullptr : &in_.nodes[static_cast<size_t>(n)];
    return node == nullptr || node->op != op ? nullptr : node;
  }

  void take(ValueId before, ValueId after) {
    const Node* update = producer(after, "update_slice");
    if (update == nullptr || update->inputs[0] != before || update->inputs[1] == before) return;
    updates_[update] = {before, after};
    for (const ValueId id : {before, after}) {
      out_.values[static_cast<size_t>(id)].type.type = dtype_;
      wide_[id] = {id, graph::kAbsent};
    }
  }

  // A state of 16 bits that the model updates as f32: after = cast(update(cast(before))).
  void take_inside(ValueId before, ValueId after) {
    const Node* narrows = producer(after, "cast");
    const Node* update = narrows == nullptr ? nullptr : producer(narrows->inputs[0], "update_slice");
    const Node* widens = update == nullptr ? nullptr : producer(update->inputs[0], "cast");
    const bool fits = widens != nullptr && widens->inputs[0] == before && in_.value(before).type.type == dtype_ &&
                      in_.value(update->outputs[0]).type.type == DataType::f32() &&
                      update->inputs[1] != update->inputs[0] && !in_.is_output(update->outputs[0]);
    if (!fits) return;
    updates_[update] = {before, after};
    dropped_.insert(narrows);
    wide_[update->outputs[0]] = {after, graph::kAbsent};
  }

  ValueId as_type(ValueId id, DataType type, const std::string& name) {
    return graph::append_node(
        out_, ops_, {.op = "cast", .name = name, .attrs = {{"to", to_string(type)}}, .inputs = {id}}, &names_)[0];
  }

  void add(const Node& node) {
    if (dropped_.contains(&node)) return;
    Node copy = node;
    const auto update = updates_.find(&node);
    for (ValueId& in : copy.inputs) {
      const auto wide = wide_.find(in);
      if (wide == wide_.end() || (update != updates_.end() && in == update->second.before)) continue;
      auto& [narrow, value] = wide->second;
      if (value == graph::kAbsent) value = as_type(narrow, DataType::f32(), in_.value(in).name);
      in = value;
    }
    if (update != updates_.end()) {
      copy.inputs[0] = update->second.before;
      copy.inputs[1] = as_type(copy.inputs[1], dtype_, in_.value(node.inputs[1]).name);
      copy.outputs = {update->second.after};
    }
    out_.nodes.push_back(std::move(copy));
  }

  const Graph& in_;
  const graph::OpTable& ops_;
  DataType dtype_;
  Graph out_;
  graph::NameSet names_;
  std::map<const Node*, Update> updates_;
  std::set<const Node*> dropped_;
  // What is f32 in the model: the narrow value, and its f32 copy once that is read.
  std::map<ValueId, std::pair<ValueId, ValueId>> wide_;
};

}  // namespace

Graph narrow_states(const Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& states,
                    DataType dtype) {
  return dtype.is_half() ? StateNarrower(graph, ops, dtype).run(states) : graph;
}

}  // namespace tw::transform
