// A value that several groups read is written once and read by each. Where it is a step or two from one value of its
// size that is stored already, or from one of narrower elements, reading that one costs no more, and the write is left
// out: each group computes the value itself. A training's batch norms are such steps, x - mean, and so are conversions
// to f32.
//
// Values of which rows are combined are left alone: passes fuse-outputs and fuse-row-sums make one kernel of groups
// that such a value leads to one another, and who computes a copy of his own is led to by nobody.
//
// Copies are given to groups as pass fuse would form them. Which of the copies become part of their readers' groups is
// seen when it would form them once more: what is stored nevertheless stays as it was.
#include <algorithm>
#include <array>
#include <set>

#include "transform/passes.h"
#include "transform/roles.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

constexpr std::array<std::string_view, 9> kCheap = {"cast", "add", "sub", "mul", "neg", "relu", "max", "min", "where"};
constexpr size_t kMaxSteps = 6;  // nodes of a copy
constexpr int64_t kSmall = 8;    // times as many elements has the value as what is broadcast to it
constexpr int kMaxTurns = 16;    // in which copies are given

// Nodes that compute a value of what is stored, in their order.
using Steps = std::set<int>;

class Copier {
 public:
  Copier(Graph graph, const TransformContext& context)
      : graph_(std::move(graph)),
        ops_(&context.ops),
        producers_(graph_.producers()),
        readers_(graph_.consumers()),
        group_(grouping(graph_, context)) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (combines_rows(graph_.nodes[n])) groups_of_rows_.insert(group_[n]);
    }
  }

  const Graph& graph() const { return graph_; }

  // By value: what each group that reads it would compute instead; but for those in `kept`.
  std::map<ValueId, Steps> found(const std::set<ValueId>& kept) const {
    std::map<ValueId, Steps> all;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.outputs.size() != 1 || kept.contains(node.outputs[0]) || !is_cheap(node)) continue;
      const ValueId value = node.outputs[0];
      if (graph_.is_output(value) || !is_read_by_others(value)) continue;
      if (std::optional<Steps> steps = steps_to(value)) all.emplace(value, std::move(*steps));
    }
    return all;
  }

  // The graph in which they do; the copies of each value.
  Graph copied(const std::map<ValueId, Steps>& values, std::map<ValueId, ValueId>& copies) const {
    Graph out = graph_;
    out.nodes.clear();
    std::map<std::pair<ValueId, int>, ValueId> own;  // of a group
    for (const Node& before : graph_.nodes) {
      const auto n = static_cast<int>(&before - graph_.nodes.data());
      Node node = before;
      for (ValueId& in : node.inputs) {
        const auto copy = own.find({in, group_[n]});
        if (copy != own.end()) in = copy->second;
      }
      out.nodes.push_back(std::move(node));
      const auto found = before.outputs.empty() ? values.end() : values.find(before.outputs[0]);
      if (found == values.end()) continue;
      for (const int group : other_groups(found->first)) {
        own[{found->first, group}] = add_copy(out, found->second);
        copies[own[{found->first, group}]] = found->first;
      }
    }
    graph::drop_unneeded(out, 0, out.outputs);
    return out;
  }

  // The values that a copy was made of which is stored.
  std::set<ValueId> stored_of(const std::map<ValueId, ValueId>& copies) const {
    std::set<ValueId> values;
    for (const auto& [copy, value] : copies) {
      if (is_read_by_others(copy)) values.insert(value);
    }
    return values;
  }

 private:
  int64_t elements(ValueId id) const { return graph_.value(id).type.elements(); }

  static bool is_cheap(const Node& node) { return std::ranges::find(kCheap, node.op) != kCheap.end(); }

  // Whether it is a reduction of what lies beside each other.
  bool combines_rows(const Node& node) const {
    if (role_of(*ops_, node) != Role::kReduction) return false;
    const graph::Value& data = graph_.value(node.inputs[0]);
    const size_t rank = data.type.shape.size();
    const std::optional<Ints> order = storage_order(data.layout, rank);
    if (!node.has_attr("axes") || !order || rank == 0) return true;
    return std::ranges::any_of(node.ints_attr("axes"), [&](int64_t axis) {
      return (axis < 0 ? axis + static_cast<int64_t>(rank) : axis) == order->back();
    });
  }

  int group_of(ValueId value) const { return producers_[value] < 0 ? -1 : group_[producers_[value]]; }

  bool is_read_by_others(ValueId value) const {
    const int own = group_of(value);
    return std::ranges::any_of(readers_[value], [&](int r) { return group_[r] != own || own < 0; });
  }

  bool is_stored(ValueId value) const {
    const int own = group_of(value);
    return own < 0 || graph_.is_output(value) || is_read_by_others(value);
  }

  std::set<int> other_groups(ValueId value) const {
    std::set<int> groups;
    for (const int r : readers_[value]) {
      if (group_[r] != group_of(value)) groups.insert(group_[r]);
    }
    return groups;
  }

  // Nothing where a reader is no group or combines rows, or `value` is more than a few steps from one value of its size
  // that is stored, or has narrower elements.
  std::optional<Steps> steps_to(ValueId value) const {
    const std::set<int> others = other_groups(value);
    const auto has_rows = [&](int group) { return groups_of_rows_.contains(group); };
    if (others.contains(-1) || has_rows(group_of(value)) || std::ranges::any_of(others, has_rows)) return std::nullopt;
    Steps steps;
    ValueId at = value;
    do {
      const Node& node = graph_.nodes[producers_[at]];
      if (!is_cheap(node) || !take(steps, producers_[at])) return std::nullopt;
      ValueId wide = kAbsent;
      for (const ValueId in : node.inputs) {
        if (in == kAbsent) continue;
        const bool is_wide = elements(in) == elements(value);
        if (is_wide && wide != kAbsent && wide != in) return std::nullopt;
        if (is_wide) wide = in;
        if (!is_wide && (elements(in) * kSmall > elements(value) || !take_small(steps, in))) return std::nullopt;
      }
      if (wide == kAbsent) return std::nullopt;
      at = wide;
    } while (!is_end(at, value));
    return graph_.value(at).type.bytes() <= graph_.value(value).type.bytes() ? std::optional(steps) : std::nullopt;
  }

  bool is_end(ValueId at, ValueId value) const {
    return is_stored(at) || graph_.value(at).type.bytes() < graph_.value(value).type.bytes();
  }

  static bool take(Steps& steps, int node) {
    steps.insert(node);
    return steps.size() <= kMaxSteps;
  }

  // A part of a stored value, or few elements computed of it. Parts are read where they are, by each for itself: groups
  // that read one that is stored would wait for each other.
  bool take_small(Steps& steps, ValueId id) const {
    if (is_stored(id) && !is_part(id)) return true;
    const Node& node = graph_.nodes[producers_[id]];
    if (!(is_cheap(node) || node.op == "slice") || !take(steps, producers_[id])) return false;
    return std::ranges::all_of(node.inputs, [&](ValueId in) { return in == kAbsent || take_small(steps, in); });
  }

  bool is_part(ValueId id) const {
    if (producers_[id] < 0) return false;
    const Node& node = graph_.nodes[producers_[id]];
    return node.op == "slice" || (node.op == "cast" && is_part(node.inputs[0]));
  }

  // Of the last one's result.
  ValueId add_copy(Graph& out, const Steps& steps) const {
    std::map<ValueId, ValueId> own;
    ValueId last = kAbsent;
    for (const int n : steps) {
      Node copy = graph_.nodes[n];
      for (ValueId& in : copy.inputs) in = own.contains(in) ? own.at(in) : in;
      const ValueId result = copy.outputs[0];
      last = copy.outputs[0] = own[result] = out.add_value(graph_.value(result).name, graph_.value(result).type);
      out.values[last].layout = graph_.value(result).layout;
      out.nodes.push_back(std::move(copy));
    }
    return last;
  }

  Graph graph_;
  const graph::OpTable* ops_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> group_;  // by node
  std::set<int> groups_of_rows_;
};

}  // namespace

graph::Graph compute_where_read(const graph::Graph& graph, const TransformContext& context) {
  Copier now(graph::compact(graph), context);
  std::set<ValueId> kept;
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    const std::map<ValueId, Steps> values = now.found(kept);
    if (values.empty()) break;
    std::map<ValueId, ValueId> copies;
    Copier next(now.copied(values, copies), context);
    const std::set<ValueId> stored = next.stored_of(copies);
    kept.insert(stored.begin(), stored.end());
    if (stored.empty()) now = std::move(next);
  }
  return graph::compact(now.graph());
}

}  // namespace tw::transform
