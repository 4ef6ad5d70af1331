// Values between groups are stored as measuring found best or as a plan says (mechanism D7): each group reads and
// writes values in whatever order these have, so that groups stay as they are. Where a group reads a value in an order
// of its own, a group before it copies the value, once for all of its readers in that order.
#include "transform/layout/reorder_values.h"

#include <algorithm>

#include "support/join.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

class ValueReorderer {
 public:
  ValueReorderer(const Graph& graph, const TransformContext& context)
      : graph_(graph), context_(context), between_(*context.between) {}

  Graph run() {
    const auto values = static_cast<ValueId>(graph_.values.size());
    for (ValueId id = 0; id < values; ++id) {
      if (is_between_groups(graph_, id, context_.states)) store(id);
    }
    std::vector<Node> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : before) {
      const std::string& reader = graph_.value(node.outputs.front()).name;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const auto own = between_.reads.find({reader, static_cast<int64_t>(i)});
        if (own != between_.reads.end()) node.inputs[i] = read_of(node.inputs[i], own->second);
      }
      graph_.nodes.push_back(std::move(node));
    }
    return std::move(graph_);
  }

 private:
  void store(ValueId id) {
    graph::Value& value = graph_.values[id];
    const Layout* layout = find_layout(&between_, value);
    if (layout == nullptr || value.layout == *layout) return;
    value.layout = *layout;
    say(value.name, because("measured", "the groups that write and read it were measured with each of its layouts"));
  }

  // `id`, or its copy in that layout.
  ValueId read_of(ValueId id, const Layout& layout) {
    if (id == kAbsent || !is_between_groups(graph_, id, context_.states)) return id;
    const std::string name = graph_.value(id).name;
    const TensorType type = graph_.value(id).type;
    if (!fits(layout, type.shape) || same_bytes(type.shape, layout, graph_.value(id).layout)) return id;
    const auto [copy, fresh] = copies_.try_emplace({id, to_string(layout)}, kAbsent);
    if (!fresh) return copy->second;
    copy->second = graph_.add_value(name + "_stored", type);
    graph_.values[copy->second].layout = layout;
    graph_.nodes.push_back(copy_between(graph_, id, copy->second));
    say(graph_.value(copy->second).name,
        because("measured", "a copy of {}: with its readers faster than without", name));
    return copy->second;
  }

  void say(const std::string& value, Why why) {
    if (context_.log != nullptr) context_.log->say_layout(value, std::move(why));
  }

  Graph graph_;
  const TransformContext& context_;
  const ValueLayouts& between_;
  std::map<std::pair<ValueId, std::string>, ValueId> copies_;  // by layout
};

}  // namespace

bool is_between_groups(const Graph& groups, ValueId id, const std::vector<StateNames>& states) {
  const graph::Value& value = groups.value(id);
  const auto is_end = [&](const StateNames& s) { return s.before == value.name || s.after == value.name; };
  return groups.producer(id) >= 0 && !groups.is_output(id) && std::ranges::none_of(states, is_end);
}

Node copy_between(const Graph& groups, ValueId from, ValueId to) {
  std::vector<int64_t> order = sequence(groups.value(from).type.shape.size());
  Node group{.op = "group", .name = groups.value(to).name + "_layout", .inputs = {from}, .outputs = {to}};
  graph::Graph body;
  body.name = group.name;
  for (const ValueId id : {from, to}) {
    const graph::Value& value = groups.value(id);
    body.values.push_back({value.name, value.type, value.layout, nullptr});
  }
  body.nodes = {{.op = "transpose", .name = group.name, .attrs = {{"perm", order}}, .inputs = {0}, .outputs = {1}}};
  body.inputs = {0};
  body.outputs = {1};
  group.body = std::make_shared<const graph::Graph>(std::move(body));
  return group;
}

Graph reorder_values(const Graph& graph, const TransformContext& context) {
  return context.between == nullptr ? graph : ValueReorderer(graph, context).run();
}

}  // namespace tw::transform
