#include "transform/rewrite/live_rows.h"

#include <algorithm>
#include <array>
#include <limits>

#include "support/error.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Of one operand: zeros stay zeros.
constexpr std::array<std::string_view, 5> kKeepZeros = {"cast", "identity", "neg", "abs", "relu"};
// Reductions and the number that changes nothing in them.
struct Neutral {
  std::string_view op;
  double number;
};
constexpr std::array<Neutral, 5> kReductions = {{{"reduce_sum", 0},
                                                 {"reduce_l1", 0},
                                                 {"reduce_sum_square", 0},
                                                 {"reduce_max", -kInfinity},
                                                 {"reduce_min", kInfinity}}};

class NodeRows {
 public:
  NodeRows(const Graph& graph, const graph::OpTable& ops, const Node& node,
           const std::vector<std::optional<LiveRows>>& inputs)
      : graph_(graph), ops_(ops), node_(node), inputs_(inputs) {}

  RowsOfNode run() {
    if (node_.outputs.size() != 1) refuse();
    if (is_pointwise(ops_, node_)) return pointwise();
    if (node_.op == "reshape") return reshape();
    if (node_.op == "transpose") return transpose();
    if (node_.op == "expand") return same_from_the_end();
    if (node_.op == "slice") return slice();
    if (node_.op == "concat") return concat();
    if (node_.op == "matmul") return matmul();
    if (node_.op == "softmax") return softmax();
    const auto* reduction = std::ranges::find(kReductions, node_.op, &Neutral::op);
    if (reduction != kReductions.end()) return reduce(reduction->number);
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw Unsupported("node '{}' ({}) takes rows of a state that hold nothing yet for others", node_.name, node_.op);
  }

  const Shape& shape(size_t input) const { return graph_.value(node_.inputs[input]).type.shape; }
  const Shape& result() const { return graph_.value(node_.outputs[0]).type.shape; }

  // Rows that come in by several inputs are those of one dim.
  LiveRows joined(const std::vector<std::optional<LiveRows>>& at) const {
    std::optional<LiveRows> all;
    for (const std::optional<LiveRows>& rows : at) {
      if (!rows) continue;
      if (all && (all->dim != rows->dim || all->length != rows->length)) refuse();
      all = LiveRows{rows->dim, rows->length, false};
    }
    return *all;
  }

  // Of each input, with dims counted as the result's, from the end on.
  std::vector<std::optional<LiveRows>> from_the_end() const {
    std::vector<std::optional<LiveRows>> out = inputs_;
    for (size_t k = 0; k < out.size(); ++k) {
      if (out[k]) out[k]->dim += result().size() - shape(k).size();
    }
    return out;
  }

  RowsOfNode same_from_the_end() const { return {joined(from_the_end())}; }

  RowsOfNode pointwise() const {
    LiveRows rows = joined(from_the_end());
    const auto zero = [&](size_t k) { return inputs_[k] && inputs_[k]->zero; };
    if (node_.op == "mul") rows.zero = zero(0) || zero(1);
    if (node_.op == "div") rows.zero = zero(0) && !inputs_[1];
    if (std::ranges::find(kKeepZeros, node_.op) != kKeepZeros.end()) rows.zero = zero(0);
    return {rows};
  }

  RowsOfNode reshape() const {
    LiveRows rows = *inputs_[0];
    const Shape &from = shape(0), &to = result();
    const int64_t behind = num_elements(Shape(from.begin() + static_cast<std::ptrdiff_t>(rows.dim) + 1, from.end()));
    int64_t stride = 1;
    for (size_t d = to.size(); d-- > 0; stride *= to[d]) {
      if (stride != behind || to[d] != from[rows.dim]) continue;
      rows.dim = d;
      return {rows};
    }
    refuse();
  }

  RowsOfNode transpose() const {
    LiveRows rows = *inputs_[0];
    const Ints& perm = node_.ints_attr("perm");
    rows.dim = static_cast<size_t>(std::ranges::find(perm, static_cast<int64_t>(rows.dim)) - perm.begin());
    return {rows};
  }

  RowsOfNode slice() const {
    const size_t d = inputs_[0]->dim;
    const bool whole =
        node_.ints_attr("starts")[d] == 0 && node_.ints_attr("steps")[d] == 1 && result()[d] == shape(0)[d];
    if (!whole) refuse();
    return {inputs_[0]};
  }

  RowsOfNode concat() const {
    const LiveRows rows = joined(inputs_);
    const auto rank = static_cast<int64_t>(result().size());
    const int64_t axis = node_.int_attr("axis");
    if ((axis < 0 ? axis + rank : axis) == static_cast<int64_t>(rows.dim)) refuse();
    return {rows};
  }

  // Where a sum runs over rows, one of the operands has to be zero in those that hold nothing.
  RowsOfNode matmul() const {
    std::vector<std::optional<LiveRows>> at = from_the_end();
    bool sums = false, zero = false;
    for (size_t k = 0; k < 2; ++k) {
      const size_t rank = shape(k).size();
      if (rank < 2) refuse();
      if (!inputs_[k] || inputs_[k]->dim != (k == 0 ? rank - 1 : rank - 2)) continue;
      sums = true;
      zero = zero || inputs_[k]->zero;
      at[k].reset();
    }
    RowsOfNode out;
    if (at[0] || at[1]) out.result = joined(at);
    if (sums && out.result) refuse();
    const size_t smaller =
        graph_.value(node_.inputs[0]).type.elements() <= graph_.value(node_.inputs[1]).type.elements() ? 0 : 1;
    if (sums && !zero) out.fills.push_back({inputs_[smaller] ? smaller : 1 - smaller, 0});
    return out;
  }

  RowsOfNode softmax() const {
    LiveRows rows = *inputs_[0];
    const int64_t axis = node_.int_attr_or("axis", -1), rank = std::ssize(result());
    rows.zero = (axis < 0 ? axis + rank : axis) == static_cast<int64_t>(rows.dim);
    if (!rows.zero) return {rows};
    return {rows, {{0, -kInfinity}}};
  }

  RowsOfNode reduce(double neutral) const {
    LiveRows rows = *inputs_[0];
    const auto rank = static_cast<int64_t>(shape(0).size());
    Ints axes = node_.ints_attr_or("axes", {});
    if (!node_.has_attr("axes")) {
      for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
    }
    size_t gone = 0;
    for (const int64_t axis : axes) {
      const auto d = static_cast<size_t>(axis < 0 ? axis + rank : axis);
      if (d == rows.dim)
        return {std::nullopt, rows.zero && neutral == 0 ? std::vector<RowsOfNode::Fill>()
                                                        : std::vector<RowsOfNode::Fill>{{0, neutral}}};
      gone += d < rows.dim ? 1 : 0;
    }
    if (node_.int_attr_or("keepdims", 1) == 0) rows.dim -= gone;
    rows.zero = false;
    return {rows};
  }

  const Graph& graph_;
  const graph::OpTable& ops_;
  const Node& node_;
  const std::vector<std::optional<LiveRows>>& inputs_;
};

}  // namespace

RowsOfNode rows_of_node(const Graph& graph, const graph::OpTable& ops, const Node& node,
                        const std::vector<std::optional<LiveRows>>& inputs) {
  return NodeRows(graph, ops, node, inputs).run();
}

}  // namespace tw::transform
