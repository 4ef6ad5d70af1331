#include "transform/rewrite/live_rows.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "support/error.h"
#include "support/join.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Of one operand: zeros stay zeros.
constexpr std::array<std::string_view, 5> kKeepZeros = {"cast", "identity", "neg", "abs", "relu"};
// Finite numbers stay finite.
constexpr std::array<std::string_view, 9> kKeepFinite = {"add",   "sub", "mul",     "min", "max",
                                                         "where", "erf", "sigmoid", "tanh"};
// Reductions and the number that changes nothing in them.
struct Neutral {
  std::string_view op;
  double number;
};
constexpr Neutral kReductions[] = {
    {"reduce_sum", 0},          {"reduce_mean", 0},        {"reduce_l1", 0},
    {"reduce_l2", 0},           {"reduce_sum_square", 0},  {"reduce_prod", 1},
    {"reduce_max", -kInfinity}, {"reduce_min", kInfinity}, {"reduce_log_sum_exp", -kInfinity}};
// Each image of a batch by itself, besides what is_spatial() says.
constexpr std::array<std::string_view, 8> kByImage = {
    "instance_norm", "group_norm", "lrn", "resize", "unfold", "space_to_depth", "depth_to_space", "batch_norm"};
constexpr std::array<std::string_view, 3> kByTrailingAxes = {"layer_norm", "rms_norm", "lp_norm"};

template <size_t N>
bool is_one_of(const Node& node, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, node.op) != names.end();
}

class NodeRows {
 public:
  NodeRows(const Graph& graph, const graph::OpTable& ops, const Node& node, const std::vector<RowsOfValue>& inputs)
      : graph_(graph), ops_(ops), node_(node), inputs_(inputs) {}

  RowsOfNode run() const {
    if (is_one_of(node_, kByTrailingAxes)) return {normalized()};
    if (node_.outputs.size() != 1 || node_.body != nullptr) refuse();
    if (is_pointwise(ops_, node_)) return {pointwise()};
    if (node_.op == "reshape") return {reshape()};
    if (node_.op == "transpose") return {transpose()};
    if (node_.op == "expand") return {joined(from_the_end())};
    if (node_.op == "slice") return slice();
    if (node_.op == "concat" || node_.op == "pad") return {beside_axes()};
    if (node_.op == "gather") return gather();
    if (node_.op == "gather_nd") return {gather_tuples()};
    if (node_.op == "gather_elements") return {gather_elements()};
    if (node_.op == "matmul" || node_.op == "matmul_integer") return matmul();
    if (node_.op == "softmax" || node_.op == "log_softmax") return softmax();
    if (is_spatial(node_) || is_one_of(node_, kByImage)) return {by_image()};
    const auto* reduction = std::ranges::find(kReductions, node_.op, &Neutral::op);
    if (reduction != std::end(kReductions)) return reduce(reduction->number);
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw Unsupported("node '{}' ({}) takes rows that hold nothing for others", node_.name, node_.op);
  }

  const Shape& shape(size_t input) const { return graph_.value(node_.inputs[input]).type.shape; }
  const Shape& result() const { return graph_.value(node_.outputs[0]).type.shape; }
  bool is_float(size_t input) const { return graph_.value(node_.inputs[input]).type.type.is_float(); }
  size_t axis_of(int64_t axis, size_t rank) const {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  }

  static const LiveRows* find(const RowsOfValue& among, const LiveRows& rows) {
    const auto found = std::ranges::find_if(among, [&](const LiveRows& r) { return r.is_same(rows); });
    return found == among.end() ? nullptr : &*found;
  }

  // What input k, whose rows are at[k], has where `rows` hold nothing: what lacks these rows has the same for all.
  OtherRows other_of(const std::vector<RowsOfValue>& at, size_t k, const LiveRows& rows) const {
    const LiveRows* found = find(at[k], rows);
    if (found == nullptr) return OtherRows::kFinite;
    return is_float(k) ? found->other : std::max(found->other, OtherRows::kFinite);
  }

  // In one dim the rows of one length are within those of another.
  void check_apart(const LiveRows& a, const LiveRows& b) const {
    if (a.dim != b.dim || a.is_same(b)) return;
    const bool within = a.inner % (b.inner * b.extent) == 0 || b.inner % (a.inner * a.extent) == 0;
    if (a.length == b.length || !within) refuse();
  }

  // All rows that come in, with the least that is known of the others.
  RowsOfValue joined(const std::vector<RowsOfValue>& at) const {
    RowsOfValue all;
    for (const RowsOfValue& rows : at) {
      for (const LiveRows& r : rows) {
        for (const LiveRows& known : all) check_apart(known, r);
        if (find(all, r) == nullptr) all.push_back(r);
      }
    }
    for (LiveRows& rows : all) {
      rows.other = OtherRows::kZero;
      for (size_t k = 0; k < at.size(); ++k) rows.other = std::min(rows.other, other_of(at, k, rows));
    }
    return all;
  }

  // Of each input, with dims counted as the result's, from the end on.
  std::vector<RowsOfValue> from_the_end() const {
    std::vector<RowsOfValue> out = inputs_;
    for (size_t k = 0; k < out.size(); ++k) {
      for (LiveRows& rows : out[k]) rows.dim += result().size() - shape(k).size();
    }
    return out;
  }

  RowsOfValue pointwise() const {
    const std::vector<RowsOfValue> at = from_the_end();
    RowsOfValue all = joined(at);
    for (LiveRows& rows : all) {
      const auto other = [&](size_t k) { return other_of(at, k, rows); };
      const OtherRows least = rows.other;
      const bool is_finite = least != OtherRows::kAny;
      rows.other = OtherRows::kAny;
      if (is_one_of(node_, kKeepZeros)) rows.other = least;
      if (is_one_of(node_, kKeepFinite) && is_finite) rows.other = OtherRows::kFinite;
      if (node_.op == "mul" && is_finite && std::max(other(0), other(1)) == OtherRows::kZero)
        rows.other = OtherRows::kZero;
      if (node_.op == "div" && find(at[1], rows) == nullptr) rows.other = other(0);
    }
    return all;
  }

  // A dim of the result takes rows over where its index says alone which row an element belongs to.
  RowsOfValue reshape() const {
    const Shape from = row_major_strides(shape(0)), to = row_major_strides(result());
    RowsOfValue out = inputs_[0];
    if (num_elements(result()) == 0) refuse();
    for (LiveRows& rows : out) {
      const int64_t stride = rows.inner * from[rows.dim];
      size_t d = 0;
      while (d < to.size() && (stride % to[d] != 0 || to[d] * result()[d] % (stride * rows.extent) != 0)) ++d;
      if (d == to.size()) refuse();
      rows.dim = d;
      rows.inner = stride / to[d];
    }
    return out;
  }

  RowsOfValue transpose() const {
    const Ints& perm = node_.ints_attr("perm");
    RowsOfValue out = inputs_[0];
    for (LiveRows& rows : out)
      rows.dim = static_cast<size_t>(std::ranges::find(perm, static_cast<int64_t>(rows.dim)) - perm.begin());
    return out;
  }

  // Whether indices of the dim up to `last` are of rows that hold something always.
  static bool is_live(const LiveRows& rows, const Shape& from, int64_t first, int64_t last) {
    return from[rows.dim] == rows.inner * rows.extent && first >= 0 && last < rows.least * rows.inner;
  }

  // Whether what a node takes of these rows is the last one that holds something, by a number that a run knows.
  bool is_last(const LiveRows& rows, int64_t index, const RowsOfNode& so_far) const {
    return rows.inner == 1 && rows.least >= 1 && index == shape(0)[rows.dim] - 1 && !so_far.last &&
           shape(0)[rows.dim] == rows.extent;
  }

  RowsOfNode slice() const {
    const Ints &starts = node_.ints_attr("starts"), &steps = node_.ints_attr("steps");
    RowsOfNode out;
    for (const LiveRows& rows : inputs_[0]) {
      const size_t d = rows.dim;
      const int64_t last = starts[d] + (result()[d] - 1) * steps[d];
      if (starts[d] == 0 && steps[d] == 1 && result()[d] == shape(0)[d]) {
        out.result.push_back(rows);
      } else if (is_live(rows, shape(0), std::min(starts[d], last), std::max(starts[d], last))) {
        continue;
      } else if (result()[d] == 1 && is_last(rows, last, out)) {
        out.last = rows;
      } else {
        refuse();
      }
    }
    return out;
  }

  // Concatenations and pads along other dims.
  RowsOfValue beside_axes() const {
    RowsOfValue all = joined(inputs_);
    for (const LiveRows& rows : all) {
      if (result()[rows.dim] != shape(0)[rows.dim] ||
          (node_.op == "concat" && axis_of(node_.int_attr("axis"), result().size()) == rows.dim))
        refuse();
    }
    return all;
  }

  // What is taken where indices hold nothing: any elements.
  OtherRows other_of_table() const {
    OtherRows other = OtherRows::kFinite;
    for (const LiveRows& known : inputs_[0]) other = std::min(other, known.other);
    return other;
  }

  // Elements of a table: those of rows that hold nothing are others of it.
  RowsOfNode gather() const {
    const size_t axis = axis_of(node_.int_attr_or("axis", 0), shape(0).size()), rank = shape(1).size();
    RowsOfNode out;
    for (LiveRows rows : inputs_[0]) {
      if (rows.dim == axis && !takes_live(rows)) {
        if (!takes_end() || !is_last(rows, shape(0)[axis] - 1, out)) refuse();
        out.last = rows;
      }
      if (rows.dim == axis) continue;
      if (rows.dim > axis) rows.dim += rank - 1;
      out.result.push_back(rows);
    }
    for (LiveRows rows : inputs_[1]) {
      rows.dim += axis;
      rows.other = other_of_table();
      out.result.push_back(rows);
    }
    return out;
  }

  // The same at tuples of indices, of which those of one element lie along the last dim.
  RowsOfValue gather_tuples() const {
    const auto size = static_cast<size_t>(shape(1).back());
    if (node_.int_attr_or("batch_dims", 0) != 0) refuse();
    for (const LiveRows& rows : inputs_[0]) {
      if (rows.dim >= size || !takes_live(rows, rows.dim, size)) refuse();
    }
    RowsOfValue out = inputs_[1];
    for (LiveRows& rows : out) {
      if (rows.dim + 1 == shape(1).size()) refuse();
      rows.other = other_of_table();
    }
    return out;
  }

  // Each element at its own place, but for the axis.
  RowsOfValue gather_elements() const {
    const size_t axis = axis_of(node_.int_attr_or("axis", 0), shape(0).size());
    std::vector<RowsOfValue> at = inputs_;
    for (const LiveRows& rows : at[0]) {
      if (rows.dim == axis && !takes_live(rows)) refuse();
    }
    std::erase_if(at[0], [&](const LiveRows& rows) { return rows.dim == axis; });
    RowsOfValue out = joined(at);
    for (LiveRows& rows : out) rows.other = other_of_table();
    return out;
  }

  // Whether indices name rows that hold something wherever they themselves lie in such a row, or in none: row r of the
  // indices names one that is not behind r, or that is always there. Of tuples of `size` indices it is the one at
  // `part`.
  bool takes_live(const LiveRows& rows, size_t part = 0, size_t size = 1) const {
    const graph::Value& value = graph_.value(node_.inputs[1]);
    // Of batches behind each other only a gather's are compared at several sizes (driver/other_extents.cpp).
    const bool is_alone = shape(0)[rows.dim] == rows.inner * rows.extent;
    if (!is_alone && (node_.op != "gather" || rows.dim != 0)) return false;
    if (!value.is_constant() || value.type.elements() == 0) return false;
    const auto indices = graph::RefTensor::from_bytes(value.type, *value.constant).ints;
    const Shape strides = row_major_strides(shape(1));
    for (size_t i = part; i < indices.size(); i += size) {
      int64_t last = rows.least - 1;  // that is known to hold something
      for (const LiveRows& own : inputs_[1]) {
        const int64_t at = static_cast<int64_t>(i) / strides[own.dim] % shape(1)[own.dim];
        if (own.length == rows.length) last = std::max(last, at / own.inner % own.extent);
      }
      if (indices[i] < 0 || indices[i] / rows.inner % rows.extent > last) return false;
    }
    return true;
  }

  // Whether the index is one, from the end.
  bool takes_end() const {
    const graph::Value& value = graph_.value(node_.inputs[1]);
    return value.is_constant() && value.type.elements() == 1 &&
           graph::RefTensor::from_bytes(value.type, *value.constant).ints[0] == -1;
  }

  // Of operand k of a product those rows that it sums over, and the others, which are rows of the result.
  RowsOfValue take_summed(size_t k, RowsOfValue& rows) const {
    const size_t dim = result().size() - (k == 0 ? 1 : 2);
    RowsOfValue summed;
    std::ranges::copy_if(rows, std::back_inserter(summed), [&](const LiveRows& r) { return r.dim == dim; });
    std::erase_if(rows, [&](const LiveRows& r) { return r.dim == dim; });
    for (LiveRows& r : summed) r.dim = 0;  // comparable between the operands
    return summed;
  }

  RowsOfNode matmul() const {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!inputs_[k].empty() && (k >= 2 || shape(k).size() < 2)) refuse();
    }
    std::vector<RowsOfValue> at = from_the_end();
    at.resize(2);
    const std::vector<RowsOfValue> summed = {take_summed(0, at[0]), take_summed(1, at[1])};
    RowsOfNode out{joined(at)};
    for (LiveRows& rows : out.result) rows.other = OtherRows::kAny;
    for (const LiveRows& rows : joined(summed)) fill_product(summed, rows, out);
    return out;
  }

  // Where a sum runs over rows, one of the operands has to be zero in those that hold nothing, the other finite.
  void fill_product(const std::vector<RowsOfValue>& summed, const LiveRows& rows, RowsOfNode& out) const {
    const OtherRows others[2] = {other_of(summed, 0, rows), other_of(summed, 1, rows)};
    bool fills[2] = {others[0] == OtherRows::kAny, others[1] == OtherRows::kAny};
    if (std::max(others[0], others[1]) == OtherRows::kFinite && !fills[0] && !fills[1])
      fills[smaller(summed, rows)] = true;
    for (const size_t k : {0, 1}) {
      LiveRows its = rows;
      its.dim = shape(k).size() - (k == 0 ? 1 : 2);
      if (fills[k]) out.fills.push_back({k, its, 0});
    }
  }

  // Of the operands that have the rows.
  size_t smaller(const std::vector<RowsOfValue>& summed, const LiveRows& rows) const {
    const auto elements = [&](size_t k) { return graph_.value(node_.inputs[k]).type.elements(); };
    if (find(summed[0], rows) == nullptr) return 1;
    return find(summed[1], rows) == nullptr || elements(0) <= elements(1) ? 0 : 1;
  }

  RowsOfNode softmax() const {
    RowsOfNode out{inputs_[0]};
    const size_t axis = axis_of(node_.int_attr_or("axis", -1), result().size());
    for (LiveRows& rows : out.result) {
      const bool sums = rows.dim == axis;
      if (sums) out.fills.push_back({0, rows, -kInfinity});
      rows.other = sums && node_.op == "softmax" ? OtherRows::kZero : OtherRows::kAny;
    }
    return out;
  }

  RowsOfValue normalized() const {
    const size_t axis = axis_of(node_.int_attr_or("axis", -1), shape(0).size());
    RowsOfValue all = joined(from_the_end());
    for (LiveRows& rows : all) {
      const bool is_inside = node_.op == "lp_norm" ? rows.dim == axis : rows.dim >= axis;
      if (is_inside) refuse();
      rows.other = OtherRows::kAny;
    }
    return all;
  }

  RowsOfValue by_image() const {
    for (size_t k = 1; k < inputs_.size(); ++k) {
      if (!inputs_[k].empty()) refuse();
    }
    RowsOfValue out = inputs_[0];
    for (LiveRows& rows : out) {
      const bool is_apart = rows.dim == 0 || (node_.op == "batch_norm" && rows.dim != 1);
      if (!is_apart || result()[rows.dim] != shape(0)[rows.dim]) refuse();
      rows.other = OtherRows::kAny;
    }
    return out;
  }

  std::vector<bool> reduced() const {
    std::vector<bool> gone(shape(0).size(), !node_.has_attr("axes"));
    for (const int64_t axis : node_.ints_attr_or("axes", {})) gone[axis_of(axis, gone.size())] = true;
    return gone;
  }

  RowsOfNode reduce(double neutral) const {
    const std::vector<bool> gone = reduced();
    const bool keeps = node_.int_attr_or("keepdims", 1) != 0;
    RowsOfNode out;
    for (LiveRows rows : inputs_[0]) {
      const bool is_summed = gone[rows.dim];
      if (is_summed && (rows.other != OtherRows::kZero || neutral != 0)) out.fills.push_back({0, rows, neutral});
      if (is_summed && node_.op == "reduce_mean") out.mean_of.push_back(rows);
      if (is_summed) continue;
      if (!keeps)
        rows.dim -=
            static_cast<size_t>(std::count(gone.begin(), gone.begin() + static_cast<std::ptrdiff_t>(rows.dim), true));
      rows.other = OtherRows::kAny;
      out.result.push_back(rows);
    }
    return out;
  }

  const Graph& graph_;
  const graph::OpTable& ops_;
  const Node& node_;
  const std::vector<RowsOfValue>& inputs_;
};

}  // namespace

RowsOfNode rows_of_node(const Graph& graph, const graph::OpTable& ops, const Node& node,
                        const std::vector<RowsOfValue>& inputs) {
  return NodeRows(graph, ops, node, inputs).run();
}

}  // namespace tw::transform
