#include "transform/group.h"

#include <algorithm>
#include <set>

#include "graph/repeat.h"
#include "support/error.h"

namespace tw::transform {
namespace {

constexpr size_t kNames = 4;  // of nodes in a group's name; more make messages hard to read

// Builds the body of one cluster.
class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, const std::vector<int>& cluster, const std::vector<bool>& escapes)
      : graph_(graph), cluster_(cluster), escapes_(escapes) {}

  Node run() {
    group_.op = "group";
    group_.name = group_name(graph_, cluster_);
    body_.name = group_.name;
    for (const int n : cluster_) {
      for (const ValueId out : graph_.nodes[n].outputs) inside_.insert(out);
    }
    for (const int n : cluster_) add_node(graph_.nodes[n]);
    group_.body = std::make_shared<const Graph>(std::move(body_));
    return std::move(group_);
  }

 private:
  ValueId copy_value(ValueId outer) {
    const graph::Value& value = graph_.value(outer);
    body_.values.push_back({value.name, value.type, value.layout, nullptr});
    const auto inner = static_cast<ValueId>(body_.values.size()) - 1;
    inner_of_.emplace(outer, inner);
    return inner;
  }

  ValueId read(ValueId outer) {
    if (outer == kAbsent) return kAbsent;
    if (const auto known = inner_of_.find(outer); known != inner_of_.end()) return known->second;
    TW_CHECK(inside_.count(outer) == 0, "group '{}' reads '{}' before it is computed", group_.name,
             graph_.value(outer).name);
    const ValueId inner = copy_value(outer);
    group_.inputs.push_back(outer);
    body_.inputs.push_back(inner);
    return inner;
  }

  void add_node(const Node& node) {
    Node copy = node;
    for (ValueId& in : copy.inputs) in = read(in);
    for (ValueId& out : copy.outputs) {
      const ValueId outer = out;
      out = copy_value(outer);
      if (!escapes_.at(outer)) continue;
      group_.outputs.push_back(outer);
      body_.outputs.push_back(out);
    }
    body_.nodes.push_back(std::move(copy));
  }

  const Graph& graph_;
  const std::vector<int>& cluster_;
  const std::vector<bool>& escapes_;
  Node group_;
  Graph body_;
  std::set<ValueId> inside_;
  std::map<ValueId, ValueId> inner_of_;
};

// The cluster of each node; -1: none.
std::vector<int> numbers_of(const std::vector<std::vector<int>>& clusters, const Graph& graph) {
  std::vector<int> cluster_of(graph.nodes.size(), -1);
  for (size_t c = 0; c < clusters.size(); ++c) {
    for (const int n : clusters[c]) cluster_of.at(n) = static_cast<int>(c);
  }
  return cluster_of;
}

// Values that are read outside the cluster of their producer or leave the graph, and all that a loop makes: its turns
// carry it in there.
std::vector<bool> escaping_values(const Graph& graph, const std::vector<int>& cluster_of) {
  const std::vector<int> producers = graph.producers();
  std::vector<bool> escapes(graph.values.size(), false);
  for (const ValueId out : graph.outputs) escapes.at(out) = true;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId out : graph.nodes[n].outputs) escapes[out] = escapes[out] || graph.nodes[n].op == graph::kRepeat;
    for (const ValueId in : graph.nodes[n].inputs) {
      if (in == kAbsent || producers[in] < 0) continue;
      if (cluster_of[n] < 0 || cluster_of[producers[in]] != cluster_of[n]) escapes[in] = true;
    }
  }
  return escapes;
}

// The nodes of a group's body as nodes of `graph`.
std::vector<Node> unpacked(const Node& group, Graph& graph) {
  const Graph& body = *group.body;
  std::vector<ValueId> outer_of(body.values.size(), kAbsent);
  for (size_t i = 0; i < body.inputs.size(); ++i) outer_of[body.inputs[i]] = group.inputs[i];
  for (size_t i = 0; i < body.outputs.size(); ++i) outer_of[body.outputs[i]] = group.outputs[i];
  const auto outer = [&](ValueId& id) {
    if (id == kAbsent) return;
    if (outer_of[id] == kAbsent) {
      outer_of[id] = static_cast<ValueId>(graph.values.size());
      graph.values.push_back(body.values[id]);
    }
    id = outer_of[id];
  };
  std::vector<Node> nodes = body.nodes;
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) outer(id);
    for (ValueId& id : node.outputs) outer(id);
  }
  return nodes;
}

}  // namespace

std::string group_name(const Graph& graph, const std::vector<int>& cluster) {
  std::string name;
  std::vector<std::string> used;
  for (const int n : cluster) {
    const std::string& part = graph.nodes.at(n).name;
    if (std::ranges::find(used, part) != used.end()) continue;
    if (used.size() == kNames) return name + "+..";
    if (!used.empty()) name += '+';
    name += part;
    used.push_back(part);
  }
  return name;
}

Graph form_groups(const Graph& graph, const std::vector<std::vector<int>>& clusters) {
  const std::vector<int> cluster_of = numbers_of(clusters, graph);
  const std::vector<bool> escapes = escaping_values(graph, cluster_of);
  Graph result = graph;
  result.nodes.clear();
  // A group stands where its last node stood: where all it reads is there. compact() finds cycles and restores the
  // order.
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (cluster_of[n] < 0) {
      result.nodes.push_back(graph.nodes[n]);
    } else if (clusters[cluster_of[n]].back() == static_cast<int>(n)) {
      result.nodes.push_back(GroupBuilder(graph, clusters[cluster_of[n]], escapes).run());
    }
  }
  return graph::compact(result);
}

Graph merge_groups(const Graph& graph, const std::vector<std::vector<int>>& clusters) {
  const std::vector<int> cluster_of = numbers_of(clusters, graph);
  Graph flat = graph;
  flat.nodes.clear();
  std::vector<std::vector<int>> merged(clusters.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool opens = cluster_of[n] >= 0 && node.is_group();
    for (Node& inner : opens ? unpacked(node, flat) : std::vector<Node>{node}) {
      if (cluster_of[n] >= 0) merged[cluster_of[n]].push_back(static_cast<int>(flat.nodes.size()));
      flat.nodes.push_back(std::move(inner));
    }
  }
  return form_groups(flat, merged);
}

}  // namespace tw::transform
