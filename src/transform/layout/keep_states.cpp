// Where states change. The next value of a state is stored where the state is: a group that computes it point by
// point, or replaces a slice, does so in place; what else computes it writes a value of its own, which is copied behind
// everything that reads the state. Groups that read a state come before the one that changes it.
#include <algorithm>
#include <queue>

#include "support/join.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

class StateKeeper {
 public:
  StateKeeper(const Graph& graph, const TransformContext& context) : out_(graph), context_(context) {}

  Graph run() {
    for (const StateNames& names : context_.states) {
      if (names.changes()) keep(names);
    }
    sort();
    return std::move(out_);
  }

 private:
  // Whatever lies where `before` lies: itself, and views.
  std::vector<ValueId> values_in_storage(ValueId before) const {
    std::vector<ValueId> values{before};
    const auto consumers = out_.consumers();
    for (size_t i = 0; i < values.size(); ++i) {
      for (const int n : consumers[values[i]]) {
        if (is_view(out_, out_.nodes[n])) values.push_back(out_.nodes[n].outputs[0]);
      }
    }
    return values;
  }

  std::vector<int> readers_of_storage(ValueId before) const {
    std::vector<int> readers;
    const auto consumers = out_.consumers();
    for (const ValueId value : values_in_storage(before)) append(readers, consumers[value]);
    return readers;
  }

  // Whether the node reads what lies there as a view, and so perhaps elements that it has changed.
  bool reads_a_view(const Node& node, ValueId before) const {
    return std::ranges::any_of(values_in_storage(before), [&](ValueId value) {
      return value != before && std::ranges::find(node.inputs, value) != node.inputs.end();
    });
  }

  void keep(const StateNames& names) {
    const ValueId before = out_.find_value(names.before), after = out_.find_value(names.after);
    const int writer = out_.producer(after);
    TW_CHECK(writer >= 0, "nothing computes the next value '{}' of a state", names.after);
    const InPlace way = in_place(context_.ops, out_, out_.nodes[writer], before, after);
    std::vector<Edge> edges;
    for (const int reader : readers_of_storage(before)) {
      if (reader != writer) edges.push_back({reader, writer});
    }
    if (way == InPlace::kNot || reads_a_view(out_.nodes[writer], before) || !allows(edges)) return copy(before, after);
    edges_.insert(edges_.end(), edges.begin(), edges.end());
  }

  struct Edge {
    int first, then;
  };

  bool allows(const std::vector<Edge>& more) const {
    std::vector<Edge> edges = edges_;
    edges.insert(edges.end(), more.begin(), more.end());
    return order(edges).size() == out_.nodes.size();
  }

  // `after` becomes a copy of what was computed under its name, which its readers go on to read.
  void copy(ValueId before, ValueId after) {
    const graph::Value next = out_.value(after);
    const ValueId made = out_.add_value(next.name + ".made", next.type);
    out_.values[made].layout = next.layout;
    for (Node& node : out_.nodes) {
      std::ranges::replace(node.outputs, after, made);
      std::ranges::replace(node.inputs, after, made);
    }
    for (Node& node : out_.nodes) node.body = with_name(node, made, next.name);
    if (const int maker = out_.producer(made); is_view_of_state(maker)) {
      Node& group = out_.nodes[static_cast<size_t>(maker)];
      group.body = as_copy(*group.body);
    }
    Node identity{.op = "identity", .name = next.name + " (kept)", .inputs = {made}, .outputs = {after}};
    Graph body;
    body.name = identity.name;
    body.values = {{out_.value(made).name, next.type, next.layout, nullptr},
                   {next.name, next.type, next.layout, nullptr}};
    body.inputs = {0};
    body.outputs = {1};
    Node inner = identity;
    inner.inputs = {0};
    inner.outputs = {1};
    body.nodes = {inner};
    identity.op = "group";
    identity.body = std::make_shared<const Graph>(std::move(body));
    out_.nodes.push_back(std::move(identity));
    const int writer = static_cast<int>(out_.nodes.size()) - 1;
    for (const int reader : readers_of_storage(before)) edges_.push_back({reader, writer});
  }

  // It would show what the state has become: two states that change places.
  bool is_view_of_state(int n) const {
    return is_view(out_, out_.nodes[static_cast<size_t>(n)]) &&
           std::ranges::any_of(context_.states, [&](const StateNames& names) {
             const std::vector<int> readers = readers_of_storage(out_.find_value(names.before));
             return std::ranges::find(readers, n) != readers.end();
           });
  }

  // A group of one node with an identity behind it: only groups of one node are views.
  static std::shared_ptr<const Graph> as_copy(Graph body) {
    const graph::Value out = body.value(body.outputs[0]);
    const ValueId read = body.add_value(out.name + ".read", out.type);
    body.values[read].layout = out.layout;
    body.nodes[0].outputs = {read};
    body.nodes.push_back({.op = "identity", .name = out.name, .inputs = {read}, .outputs = {body.outputs[0]}});
    return std::make_shared<const Graph>(std::move(body));
  }

  // Values inside of groups have the names of those outside.
  std::shared_ptr<const Graph> with_name(const Node& node, ValueId made, const std::string& old) const {
    const auto output = std::ranges::find(node.outputs, made);
    if (!node.is_group() || output == node.outputs.end()) return node.body;
    Graph body = *node.body;
    graph::Value& value = body.values[body.outputs[static_cast<size_t>(output - node.outputs.begin())]];
    if (value.name == old) value.name = out_.value(made).name;
    return std::make_shared<const Graph>(std::move(body));
  }

  // The nodes in an order that the edges allow, as near to the present one as can be; fewer where they form a circle.
  std::vector<int> order(const std::vector<Edge>& edges) const {
    const auto count = out_.nodes.size();
    std::vector<std::vector<int>> next(count);
    std::vector<int> waits(count, 0);
    const auto add = [&](int first, int then) {
      next[static_cast<size_t>(first)].push_back(then);
      ++waits[static_cast<size_t>(then)];
    };
    const std::vector<int> producers = out_.producers();
    for (size_t n = 0; n < count; ++n) {
      for (const ValueId in : out_.nodes[n].inputs) {
        if (in != kAbsent && producers[in] >= 0) add(producers[in], static_cast<int>(n));
      }
    }
    for (const Edge& edge : edges) add(edge.first, edge.then);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t n = 0; n < count; ++n) {
      if (waits[n] == 0) ready.push(static_cast<int>(n));
    }
    std::vector<int> sorted;
    while (!ready.empty()) {
      const int n = ready.top();
      ready.pop();
      sorted.push_back(n);
      for (const int then : next[static_cast<size_t>(n)]) {
        if (--waits[static_cast<size_t>(then)] == 0) ready.push(then);
      }
    }
    return sorted;
  }

  void sort() {
    const std::vector<int> sorted = order(edges_);
    TW_CHECK(sorted.size() == out_.nodes.size(), "groups that read and change states wait for each other");
    std::vector<Node> nodes;
    for (const int n : sorted) nodes.push_back(std::move(out_.nodes[static_cast<size_t>(n)]));
    out_.nodes = std::move(nodes);
  }

  Graph out_;
  const TransformContext& context_;
  std::vector<Edge> edges_;  // besides those of values: readers of a state, and who changes it
};

}  // namespace

Graph keep_states(const Graph& graph, const TransformContext& context) {
  if (context.states.empty()) return graph;
  return StateKeeper(graph, context).run();
}

}  // namespace tw::transform
