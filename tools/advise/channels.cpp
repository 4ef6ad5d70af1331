#include "advise/channels.h"

#include <algorithm>

#include "transform/roles.h"

namespace tw::advise {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// Axes of a node's operands and results that have one extent.
struct Tie {
  std::vector<Axis> axes;
  std::vector<Axis> summed = {};
  bool is_per_channel = false;  // the node is a convolution with a filter for each channel
};
using Ties = std::vector<Tie>;

class TieFinder {
 public:
  TieFinder(const Graph& model, const graph::OpTable& ops, const Node& node) : model_(model), ops_(ops), node_(node) {}

  /// Empty for operators that are not known here.
  Ties run() const {
    if (node_.op == "conv") return conv();
    if (node_.op == "matmul") return matmul();
    if (node_.op == "batch_norm") return {{{{y(), 1}, {x(), 1}, {x(1), 0}, {x(2), 0}, {x(3), 0}, {x(4), 0}}}};
    if (node_.op == "transpose") return transpose();
    if (node_.op == "reshape") return reshape();
    if (node_.op.starts_with("reduce_")) return reduce();
    if (transform::is_spatial(node_) && node_.op.ends_with("_pool")) return {{{{y(), 1}, {x(), 1}}}};
    if (transform::is_pointwise(ops_, node_)) return pointwise();
    return {};
  }

 private:
  ValueId x(size_t i = 0) const { return node_.inputs.at(i); }
  ValueId y() const { return node_.outputs.front(); }
  const Shape& shape(ValueId id) const { return model_.value(id).type.shape; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape(id).size()); }
  bool has(size_t i) const { return i < node_.inputs.size() && x(i) != graph::kAbsent; }

  Ties conv() const {
    const int64_t group = node_.int_attr_or("group", 1);
    if (!model_.value(x(1)).is_constant()) return {};
    Tie made = {{{y(), 1}, {x(1), 0}}};
    if (has(2)) made.axes.push_back({x(2), 0});
    if (group == 1) return {made, {{{x(), 1}, {x(1), 1}}, {{x(1), 1}}}};
    if (group != shape(x())[1] || group != shape(y())[1]) return {};
    made.axes.push_back({x(), 1});
    made.is_per_channel = true;
    return {made};
  }

  Ties matmul() const {
    const int64_t columns = rank(x(1)) - 1;
    if (!model_.value(x(1)).is_constant() || columns < 1) return {};
    return {{{{y(), rank(y()) - 1}, {x(1), columns}}},
            {{{x(), rank(x()) - 1}, {x(1), columns - 1}}, {{x(1), columns - 1}}}};
  }

  Ties transpose() const {
    Ties ties;
    const std::vector<int64_t>& perm = node_.ints_attr("perm");
    for (int64_t d = 0; d < rank(y()); ++d) ties.push_back({{{y(), d}, {x(), perm[static_cast<size_t>(d)]}}});
    return ties;
  }

  // Axes with as many elements before and behind them.
  Ties reshape() const {
    Ties ties;
    const auto before = [&](ValueId id, int64_t d) { return num_elements({shape(id).begin(), shape(id).begin() + d}); };
    for (int64_t i = 0; i < rank(x()); ++i) {
      for (int64_t o = 0; o < rank(y()); ++o) {
        const int64_t extent = shape(x())[static_cast<size_t>(i)];
        if (extent > 1 && extent == shape(y())[static_cast<size_t>(o)] && before(x(), i) == before(y(), o))
          ties.push_back({{{x(), i}, {y(), o}}});
      }
    }
    return ties;
  }

  Ties reduce() const {
    std::vector<int64_t> axes = node_.ints_attr_or("axes", {});
    if (!node_.has_attr("axes")) return {};
    Ties ties;
    int64_t out = 0;
    for (int64_t d = 0; d < rank(x()); ++d) {
      const bool is_summed = std::ranges::any_of(axes, [&](int64_t a) { return (a < 0 ? a + rank(x()) : a) == d; });
      if (!is_summed) ties.push_back({{{x(), d}, {y(), out}}});
      out += !is_summed || node_.int_attr_or("keepdims", 1) != 0;
    }
    return ties;
  }

  Ties pointwise() const {
    Ties ties;
    for (int64_t d = 0; d < rank(y()); ++d) {
      Tie tie = {{{y(), d}}};
      for (const ValueId id : node_.inputs) {
        const int64_t at = id == graph::kAbsent ? -1 : d - rank(y()) + rank(id);
        if (at >= 0 && shape(id)[static_cast<size_t>(at)] == shape(y())[static_cast<size_t>(d)])
          tie.axes.push_back({id, at});
      }
      ties.push_back(std::move(tie));
    }
    return ties;
  }

  const Graph& model_;
  const graph::OpTable& ops_;
  const Node& node_;
};

class ChannelsFinder {
 public:
  ChannelsFinder(const Graph& model, const graph::OpTable& ops)
      : model_(model), ops_(ops), producers_(model.producers()), consumers_(model.consumers()) {}

  Result<Channels> run(const Axis& start) {
    found_.extent = model_.value(start.value).type.shape.at(static_cast<size_t>(start.axis));
    add(start);
    while (!open_.empty()) {
      const Axis at = open_.back();
      open_.pop_back();
      const bool is_input = std::ranges::count(model_.inputs, at.value) > 0;
      if (is_input || model_.is_output(at.value))
        return declined("'{}' is the model's {}", model_.value(at.value).name, is_input ? "input" : "output");
      for (const Node* node : neighbours(at.value)) {
        if (!follow(*node, at))
          return declined("other channels mean something else to '{}' ({})", node->name, node->op);
      }
    }
    return std::move(found_);
  }

 private:
  void add(const Axis& axis) {
    if (found_.axes.insert(axis).second) open_.push_back(axis);
  }

  // What computes the value, and what reads it.
  std::vector<const Node*> neighbours(ValueId id) const {
    std::vector<const Node*> nodes;
    for (const int n : consumers_[static_cast<size_t>(id)]) nodes.push_back(&model_.nodes[static_cast<size_t>(n)]);
    const int producer = producers_[static_cast<size_t>(id)];
    if (producer >= 0) nodes.push_back(&model_.nodes[static_cast<size_t>(producer)]);
    return nodes;
  }

  // Adds what the node ties to the axis. False: it ties nothing to it.
  bool follow(const Node& node, const Axis& at) {
    bool is_tied = false;
    for (const Tie& tie : TieFinder(model_, ops_, node).run()) {
      if (std::ranges::count(tie.axes, at) == 0) continue;
      is_tied = true;
      found_.summed.insert(tie.summed.begin(), tie.summed.end());
      if (tie.is_per_channel) found_.per_channel.insert(node.outputs.front());
      for (const Axis& other : tie.axes) add(other);
    }
    return is_tied;
  }

  const Graph& model_;
  const graph::OpTable& ops_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
  Channels found_;
  std::vector<Axis> open_;
};

}  // namespace

Result<Channels> find_channels(const Graph& model, const graph::OpTable& ops, const Axis& start) {
  return ChannelsFinder(model, ops).run(start);
}

}  // namespace tw::advise
