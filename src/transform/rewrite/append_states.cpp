#include <algorithm>

#include "support/error.h"
#include "support/join.h"
#include "transform/rewrite/row_masks.h"
#include "transform/rewrite/states.h"

namespace tw::transform {
namespace {

// The dim in which the types differ; nothing where they differ otherwise, or not at all.
std::optional<size_t> growing_dim(const TensorType& before, const TensorType& after) {
  if (before.type != after.type || before.shape.size() != after.shape.size()) return std::nullopt;
  std::optional<size_t> found;
  for (size_t d = 0; d < before.shape.size(); ++d) {
    if (before.shape[d] == after.shape[d]) continue;
    if (found || before.shape[d] > after.shape[d]) return std::nullopt;
    found = d;
  }
  return found;
}

class StateAppender {
 public:
  StateAppender(const Graph& graph, const graph::OpTable& ops)
      : in_(graph), ops_(ops), out_(graph), masks_(out_, ops, [this](int length) { return length_after(length); }) {
    out_.nodes.clear();
  }

  Graph run(const std::vector<StateNames>& growing) {
    for (const StateNames& state : growing) take(state);
    for (const Node& node : in_.nodes) add(node);
    for (const ValueId id : out_.outputs) {
      const bool is_state = std::ranges::any_of(appends_, [&](const auto& a) { return a.second.after == id; });
      if (!is_state && !rows_of(id).empty())
        throw Unsupported("output '{}' has rows of a state, of which some hold nothing yet", out_.value(id).name);
    }
    return graph::compact(out_);
  }

 private:
  struct Append {
    ValueId before, added, after;
    size_t dim;
    int length;  // of lengths_
  };
  // How many rows hold something when a run begins, as an input; and behind it, with the rows that it adds.
  struct Length {
    ValueId before = kAbsent, after = kAbsent;
    int64_t added = 0;
  };

  RowsOfValue rows_of(ValueId id) const { return value_or(rows_, id, RowsOfValue()); }

  void take(const StateNames& state) {
    const ValueId before = in_.find_value(state.before), after = in_.find_value(state.after);
    const size_t dim = *growing_dim(in_.value(before).type, in_.value(after).type);
    const int n = in_.producer(after);
    const Node* node = n < 0 ? nullptr : &in_.nodes[static_cast<size_t>(n)];
    const auto rank = static_cast<int64_t>(in_.value(after).type.shape.size());
    const int64_t axis = node == nullptr || node->op != "concat" ? -1 : node->int_attr("axis");
    const bool appends = node != nullptr && node->op == "concat" && node->inputs.size() == 2 &&
                         node->inputs[0] == before && node->inputs[1] != before &&
                         (axis < 0 ? axis + rank : axis) == static_cast<int64_t>(dim);
    if (!appends)
      throw Unsupported("state '{}' grows to '{}', which is not a concatenation of it with new rows", state.before,
                        state.after);
    const bool read = std::ranges::any_of(
        in_.nodes, [&](const Node& other) { return &other != node && std::ranges::count(other.inputs, before) > 0; });
    if (read) throw Unsupported("state '{}' grows, and is read without the rows that a run adds", state.before);
    out_.values[before].type = in_.value(after).type;
    const int64_t extent = in_.value(after).type.shape[dim];
    const int64_t added = extent - in_.value(before).type.shape[dim];
    const auto [length, fresh] = length_of_.try_emplace({extent, added}, static_cast<int>(lengths_.size()));
    if (fresh) lengths_.push_back({out_.add_input(state.before + "_length", {DataType::i64(), {1}}), kAbsent, added});
    appends_[n] = {before, node->inputs[1], after, dim, length->second};
    rows_[after] = {
        {.dim = dim, .length = length->second, .extent = extent, .least = added, .other = OtherRows::kFinite}};
  }

  void add(const Node& node) {
    const int n = static_cast<int>(&node - in_.nodes.data());
    if (const auto append = appends_.find(n); append != appends_.end()) {
      const Append& a = append->second;
      out_.nodes.push_back({.op = "update_slice",
                            .name = node.name,
                            .attrs = {{"axis", static_cast<int64_t>(a.dim)}},
                            .inputs = {a.before, a.added, lengths_[static_cast<size_t>(a.length)].before},
                            .outputs = {a.after}});
      return;
    }
    const auto inputs = mapped(node.inputs, [&](ValueId id) { return rows_of(id); });
    if (std::ranges::all_of(inputs, &RowsOfValue::empty)) return out_.nodes.push_back(node);
    const RowsOfNode found = rows_of_node(in_, ops_, node, inputs);
    for (const ValueId id : node.outputs) rows_[id] = found.result;
    masks_.append(node, found);
  }

  ValueId length_after(int number) {
    Length& length = lengths_[static_cast<size_t>(number)];
    if (length.after == kAbsent) {
      graph::RefTensor added = graph::RefTensor::zeros({DataType::i64(), {}});
      added.ints[0] = length.added;
      length.after = masks_.emit("length", "add", {length.before, masks_.constant("added", added)});
    }
    return length.after;
  }

  const Graph& in_;
  const graph::OpTable& ops_;
  Graph out_;
  RowMasks masks_;
  std::map<ValueId, RowsOfValue> rows_;
  std::map<int, Append> appends_;  // by node
  std::vector<Length> lengths_;
  std::map<std::pair<int64_t, int64_t>, int> length_of_;  // capacity and rows added -> of lengths_
};

}  // namespace

bool grows(const Graph& graph, const StateNames& state) {
  const ValueId before = graph.find_value(state.before), after = graph.find_value(state.after);
  const int n = graph.producer(after);
  const bool joins = n >= 0 && graph.nodes[static_cast<size_t>(n)].op == "concat" &&
                     std::ranges::count(graph.nodes[static_cast<size_t>(n)].inputs, before) > 0;
  return joins && growing_dim(graph.value(before).type, graph.value(after).type).has_value();
}

Graph append_states(const Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& growing) {
  return StateAppender(graph, ops).run(growing);
}

}  // namespace tw::transform
