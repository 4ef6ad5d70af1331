#include "transform/rewrite/narrow_states.h"

#include <algorithm>
#include <map>

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

class StateNarrower {
 public:
  StateNarrower(const Graph& graph, const graph::OpTable& ops, DataType dtype)
      : in_(graph), ops_(ops), dtype_(dtype), out_(graph), names_(graph) {
    out_.nodes.clear();
  }

  Graph run(const std::vector<StateNames>& states) {
    for (const StateNames& names : states) take(names);
    if (updates_.empty()) return in_;
    for (const Node& node : in_.nodes) add(node);
    return graph::compact(out_);
  }

 private:
  void take(const StateNames& names) {
    const ValueId before = in_.find_value(names.before), after = in_.find_value(names.after);
    const int n = in_.producer(after);
    if (n < 0 || in_.value(before).type.type != DataType::f32()) return;
    const Node& update = in_.nodes[static_cast<size_t>(n)];
    if (update.op != "update_slice" || update.inputs[0] != before || update.inputs[1] == before) return;
    updates_[n] = before;
    for (const ValueId id : {before, after}) {
      out_.values[static_cast<size_t>(id)].type.type = dtype_;
      wide_[id] = graph::kAbsent;
    }
  }

  ValueId as_type(ValueId id, DataType type, const std::string& name) {
    return graph::append_node(
        out_, ops_, {.op = "cast", .name = name, .attrs = {{"to", to_string(type)}}, .inputs = {id}}, &names_)[0];
  }

  void add(const Node& node) {
    Node copy = node;
    const auto update = updates_.find(static_cast<int>(&node - in_.nodes.data()));
    for (ValueId& in : copy.inputs) {
      const auto wide = wide_.find(in);
      if (wide == wide_.end() || (update != updates_.end() && in == update->second)) continue;
      if (wide->second == graph::kAbsent) wide->second = as_type(in, DataType::f32(), in_.value(in).name);
      in = wide->second;
    }
    if (update != updates_.end()) copy.inputs[1] = as_type(copy.inputs[1], dtype_, in_.value(node.inputs[1]).name);
    out_.nodes.push_back(std::move(copy));
  }

  const Graph& in_;
  const graph::OpTable& ops_;
  DataType dtype_;
  Graph out_;
  graph::NameSet names_;
  std::map<int, ValueId> updates_;   // by node: the state that takes rows
  std::map<ValueId, ValueId> wide_;  // states, before and after, and what they are as f32 once that is read
};

}  // namespace

Graph narrow_states(const Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& states,
                    DataType dtype) {
  return dtype.is_half() ? StateNarrower(graph, ops, dtype).run(states) : graph;
}

}  // namespace tw::transform
