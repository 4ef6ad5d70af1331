// Storage layouts of intermediate values, by rule (mechanism A4). A layout is only set, never converted: whoever reads
// a value reads it in its own layout, so any choice is correct.
//
// 1. Convolutions and pooling write channels last; element-wise operators and others that treat all spatial points
// alike
//    follow their inputs, or where no input decides, the convolution that reads them.
// 2. Transposes, and reshapes of the spatial dims, become views where a permuted layout lets them.
// 3. A contraction whose result is only transposed writes the transposed order.
#include <algorithm>

#include "transform/passes.h"
#include "transform/roles.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::kAbsent;
using graph::Node;
using graph::ValueId;

constexpr int64_t kMinChannels = 4;  // fewer channels make runs too short to pay for a change before a convolution

class LayoutAssigner {
 public:
  LayoutAssigner(const Graph& graph, const graph::OpTable& ops)
      : graph_(graph),
        ops_(ops),
        readers_(graph.consumers()),
        producers_(graph.producers()),
        wanted_(graph.values.size(), false) {}

  Graph run() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      for (const ValueId out : node.outputs) wanted_[out] = is_wanted(out);
    }
    for (const Node& node : graph_.nodes) {
      if (node.outputs.size() == 1) graph_.values[node.outputs[0]].layout = forward(node);
    }
    for (size_t n = graph_.nodes.size(); n-- > 0;) write_transposed(graph_.nodes[n]);
    return std::move(graph_);
  }

 private:
  const graph::Value& value(ValueId id) const { return graph_.value(id); }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  bool is_stored(ValueId id) const { return producers_[id] >= 0 && !graph_.is_output(id); }

  Layout last(ValueId id) const { return channels_last(static_cast<int>(shape(id).size())); }

  // Whether channels last is another order of bytes than row-major.
  bool has_choice(ValueId id) const { return shape(id).size() >= 3 && !same_bytes(shape(id), last(id), Layout()); }
  bool is_channels_last(ValueId id) const { return has_choice(id) && value(id).layout == last(id); }

  // A reshape of spatial dims only.
  bool keeps_channels(const Node& node) const {
    if (node.op != "reshape") return false;
    const Shape& in = shape(node.inputs[0]);
    const Shape& out = shape(node.outputs[0]);
    return in.size() >= 3 && out.size() >= 3 && in[0] == out[0] && in[1] == out[1];
  }

  // Whether a reader would rather have the value channels last.
  bool is_wanted(ValueId id) const {
    if (!is_stored(id) || !has_choice(id) || shape(id)[1] < kMinChannels) return false;
    return std::any_of(readers_[id].begin(), readers_[id].end(), [&](int r) {
      const Node& reader = graph_.nodes[r];
      if (is_spatial(reader)) return reader.inputs[0] == id;
      const bool follows = keeps_channels(reader) || follows_layout(ops_, reader);
      return follows && shape(reader.outputs[0]).size() >= 3 && wanted_[reader.outputs[0]];
    });
  }

  Layout forward(const Node& node) const {
    const ValueId out = node.outputs[0];
    if (!is_stored(out)) return Layout();
    if (node.op == "transpose") return of_transpose(node);
    if (keeps_channels(node)) return of_reshape(node);
    if (!has_choice(out)) return Layout();
    if (is_spatial(node)) return last(out);
    return follows_layout(ops_, node) && (wanted_[out] || follows_channels_last(node)) ? last(out) : Layout();
  }

  bool follows_channels_last(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) {
      return in != kAbsent && shape(in).size() == shape(node.outputs[0]).size() && is_channels_last(in);
    });
  }

  // A view where that gives row-major storage, or channels last to who wants it.
  Layout of_transpose(const Node& node) const {
    const ValueId out = node.outputs[0];
    const auto view = view_of_transpose(node, value(node.inputs[0]).layout, shape(out).size());
    return view && has_choice(out) && wanted_[out] && same_bytes(shape(out), *view, last(out)) ? last(out) : Layout();
  }

  Layout of_reshape(const Node& node) const {
    const ValueId out = node.outputs[0];
    if (!has_choice(out) || !is_channels_last(node.inputs[0])) return Layout();
    const std::vector<int>& readers = readers_[out];
    const bool transposed = std::all_of(readers.begin(), readers.end(), [&](int r) {
      if (graph_.nodes[r].op != "transpose") return false;
      const auto view = view_of_transpose(graph_.nodes[r], last(out), shape(out).size());
      return view && same_bytes(shape(graph_.nodes[r].outputs[0]), *view, Layout());
    });
    return transposed || wanted_[out] ? last(out) : Layout();
  }

  // Whether fusion will read the transpose through its index map instead.
  bool is_read_through(ValueId id) const {
    return !graph_.is_output(id) && readers_[id].size() == 1 && [&] {
      const Role role = role_of(ops_, graph_.nodes[readers_[id][0]]);
      return role == Role::kContraction || role == Role::kElementwise;
    }();
  }

  // Rule 3, for a transpose that leaves the last dim in place: rows of the result stay contiguous.
  void write_transposed(const Node& node) {
    if (node.op != "transpose" || is_read_through(node.outputs[0]) || !value(node.outputs[0]).layout.is_identity())
      return;
    const std::vector<int64_t>& perm = node.ints_attr("perm");
    if (perm.empty() || perm.back() != static_cast<int64_t>(perm.size()) - 1) return;
    const std::vector<ValueId> chain = contraction_chain(node.inputs[0]);
    for (const ValueId id : chain) graph_.values[id].layout = layout_of_order(perm);
  }

  // `id` and the values before it back to a contraction, each read by the next only; empty when there is none, when one
  // of them has a layout, or when an element-wise node between reads something else of that shape.
  std::vector<ValueId> contraction_chain(ValueId id) const {
    std::vector<ValueId> chain;
    while (is_stored(id) && readers_[id].size() == 1 && value(id).layout.is_identity()) {
      chain.push_back(id);
      const Node& node = graph_.nodes[producers_[id]];
      const Role role = role_of(ops_, node);
      if (role == Role::kContraction) return chain;
      if (role != Role::kElementwise) break;
      ValueId before = kAbsent;
      for (const ValueId in : node.inputs) {
        if (in == kAbsent || value(in).is_constant() || shape(in) != shape(id)) continue;
        if (before != kAbsent) return {};
        before = in;
      }
      if (before == kAbsent) break;
      id = before;
    }
    return {};
  }

  Graph graph_;
  const graph::OpTable& ops_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> producers_;
  std::vector<bool> wanted_;  // by value: a reader would rather have it channels last
};

}  // namespace

graph::Graph assign_layouts(const graph::Graph& graph, const TransformContext& context) {
  return LayoutAssigner(graph::compact(graph), context.ops).run();
}

}  // namespace tw::transform
