#include "graph/graph.h"

#include <algorithm>

#include "support/error.h"
#include "support/join.h"

namespace tw::graph {
namespace {

template <typename T>
const T& attr_of(const Node& node, const std::string& key) {
  const auto it = node.attrs.find(key);
  TW_CHECK(it != node.attrs.end(), "node '{}' ({}) has no attribute '{}'", node.name, node.op, key);
  const T* value = std::get_if<T>(&it->second);
  TW_CHECK(value != nullptr, "attribute '{}' of node '{}' ({}) is of another kind", key, node.name, node.op);
  return *value;
}

// Nodes that the outputs need, in an order that keeps producers before consumers and otherwise the old order.
std::vector<int> live_order(const Graph& graph) {
  const std::vector<int> producer = graph.producers();
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(graph.nodes.size(), Mark::kNew);
  std::vector<bool> needed(graph.nodes.size(), false);
  std::vector<int> order;
  const auto made_by = [&](const std::vector<ValueId>& values) {
    std::vector<int> nodes;
    for (const ValueId id : values) {
      if (id != kAbsent && producer.at(id) >= 0) nodes.push_back(producer[id]);
    }
    return nodes;
  };
  // An explicit stack: chains of thousands of nodes must not exhaust the call stack.
  const auto finish = [&](int root) {
    std::vector<int> stack{root};
    while (!stack.empty()) {
      const int n = stack.back();
      if (marks[n] == Mark::kDone) {
        stack.pop_back();
        continue;
      }
      const bool entered = marks[n] == Mark::kOpen;
      marks[n] = entered ? Mark::kDone : Mark::kOpen;
      if (entered) {
        stack.pop_back();
        order.push_back(n);
        continue;
      }
      for (const int p : made_by(graph.nodes[n].inputs)) {
        TW_CHECK(marks[p] != Mark::kOpen, "graph '{}' has a cycle through node '{}'", graph.name, graph.nodes[p].name);
        if (marks[p] == Mark::kNew) stack.push_back(p);
      }
    }
  };
  std::vector<int> work = made_by(graph.outputs);
  while (!work.empty()) {
    const int n = work.back();
    work.pop_back();
    if (needed[n]) continue;
    needed[n] = true;
    append(work, made_by(graph.nodes[n].inputs));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (needed[n] && marks[n] == Mark::kNew) finish(static_cast<int>(n));
  }
  return order;
}

}  // namespace

int64_t Node::int_attr(const std::string& key) const { return attr_of<int64_t>(*this, key); }
double Node::float_attr(const std::string& key) const { return attr_of<double>(*this, key); }
const std::string& Node::string_attr(const std::string& key) const { return attr_of<std::string>(*this, key); }
const std::vector<int64_t>& Node::ints_attr(const std::string& key) const {
  return attr_of<std::vector<int64_t>>(*this, key);
}
bool draws_numbers(const Node& node) { return node.op == "dropout" || node.op.starts_with("noise_"); }

int64_t Node::int_attr_or(const std::string& key, int64_t fallback) const {
  return has_attr(key) ? int_attr(key) : fallback;
}
double Node::float_attr_or(const std::string& key, double fallback) const {
  return has_attr(key) ? float_attr(key) : fallback;
}
std::string Node::string_attr_or(const std::string& key, const std::string& fallback) const {
  return has_attr(key) ? string_attr(key) : fallback;
}
std::vector<int64_t> Node::ints_attr_or(const std::string& key, const std::vector<int64_t>& fallback) const {
  return has_attr(key) ? ints_attr(key) : fallback;
}

int Graph::producer(ValueId id) const {
  return static_cast<int>(index_where(nodes, [&](const Node& node) { return index_of(node.outputs, id) >= 0; }));
}

std::vector<int> Graph::producers() const {
  std::vector<int> producer(values.size(), -1);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId out : nodes[n].outputs) producer.at(out) = static_cast<int>(n);
  }
  return producer;
}

std::vector<std::vector<int>> Graph::consumers() const {
  std::vector<std::vector<int>> users(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId in : nodes[n].inputs) {
      if (in != kAbsent) users.at(in).push_back(static_cast<int>(n));
    }
  }
  return users;
}

bool Graph::is_output(ValueId id) const { return std::ranges::find(outputs, id) != outputs.end(); }

ValueId Graph::find_value(std::string_view wanted) const {
  const int64_t found = index_of(values, wanted, &Value::name);
  return found < 0 ? kAbsent : static_cast<ValueId>(found);
}

NameSet::NameSet(const Graph& graph) {
  for (const Value& value : graph.values) next_suffix_.emplace(value.name, 1);
}

std::string NameSet::unique(std::string wanted) {
  const auto [known, fresh] = next_suffix_.emplace(wanted, 1);
  if (fresh) return wanted;
  std::string name;
  size_t suffix = known->second;
  do {
    name = fmt::format("{}_{}", wanted, suffix++);
  } while (!next_suffix_.emplace(name, 1).second);
  next_suffix_[wanted] = suffix;
  return name;
}

ValueId Graph::add_value(std::string wanted, TensorType type, NameSet* names) {
  if (wanted.empty()) wanted.push_back('v');
  std::string unique = names != nullptr ? names->unique(wanted) : wanted;
  for (size_t suffix = 1; names == nullptr && find_value(unique) != kAbsent; ++suffix)
    unique = fmt::format("{}_{}", wanted, suffix);
  values.push_back({.name = std::move(unique), .type = std::move(type), .layout = {}, .constant = nullptr});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string wanted, TensorType type, Bytes bytes, NameSet* names) {
  TW_CHECK(bytes != nullptr, "constant '{}' has no data", wanted);
  TW_CHECK(static_cast<int64_t>(bytes->size()) == type.bytes(), "constant '{}' of type {} has {} bytes, not {}", wanted,
           to_string(type), bytes->size(), type.bytes());
  const ValueId id = add_value(std::move(wanted), std::move(type), names);
  values[id].constant = std::move(bytes);
  return id;
}

ValueId Graph::add_input(std::string wanted, TensorType type) {
  const ValueId id = add_value(std::move(wanted), std::move(type));
  inputs.push_back(id);
  return id;
}

std::vector<ValueId> Graph::add_node(Node node, const std::vector<TensorType>& types, NameSet* names) {
  node.outputs.clear();
  for (size_t k = 0; k < types.size(); ++k) {
    node.outputs.push_back(add_value(k == 0 ? node.name : fmt::format("{}.{}", node.name, k), types[k], names));
  }
  if (node.name.empty() && !node.outputs.empty()) node.name = values[node.outputs[0]].name;
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

Graph compact(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> renumbered(graph.values.size(), kAbsent);
  const auto take = [&](ValueId id) {
    if (id == kAbsent) return kAbsent;
    if (renumbered.at(id) == kAbsent) {
      renumbered[id] = static_cast<ValueId>(result.values.size());
      result.values.push_back(graph.values[id]);
    }
    return renumbered[id];
  };
  result.inputs = mapped(graph.inputs, take);
  for (int n : live_order(graph)) {
    Node node = graph.nodes[n];
    for (ValueId& in : node.inputs) in = take(in);
    for (ValueId& out : node.outputs) out = take(out);
    result.nodes.push_back(std::move(node));
  }
  result.outputs = mapped(graph.outputs, take);
  return result;
}

void drop_unneeded(Graph& graph, size_t first, const std::vector<ValueId>& results) {
  std::vector<bool> needed(graph.values.size());
  for (const ValueId id : results) needed[id] = true;
  std::vector<Node> kept;
  for (size_t n = graph.nodes.size(); n-- > first;) {
    Node& node = graph.nodes[n];
    if (std::ranges::none_of(node.outputs, [&](ValueId id) { return needed[id]; })) continue;
    for (const ValueId in : node.inputs) {
      if (in != kAbsent) needed[in] = true;
    }
    kept.push_back(std::move(node));
  }
  graph.nodes.resize(first);
  graph.nodes.insert(graph.nodes.end(), std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace tw::graph
