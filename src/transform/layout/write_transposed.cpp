// A contraction whose result is transposed writes the transposed order: heads of an attention that come together. What
// else reads the result, as a backward pass does, reads its rows, which stay contiguous.
#include <algorithm>

#include "transform/passes.h"
#include "transform/roles.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

class TransposedWriter {
 public:
  TransposedWriter(const Graph& graph, const TransformContext& context)
      : graph_(graph), context_(context), readers_(graph.consumers()), producers_(graph.producers()) {}

  Graph run() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) write_transposed(graph_.nodes[n]);
    return std::move(graph_);
  }

 private:
  const graph::Value& value(ValueId id) const { return graph_.value(id); }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  bool is_stored(ValueId id) const { return producers_[id] >= 0 && !graph_.is_output(id); }

  // Whether fusion will read the transpose through its index map instead.
  bool is_read_through(ValueId id) const {
    return !graph_.is_output(id) && readers_[id].size() == 1 && [&] {
      const Role role = role_of(context_.ops, graph_.nodes[readers_[id][0]]);
      return role == Role::kContraction || role == Role::kElementwise;
    }();
  }

  // For a transpose that leaves the last dim in place: rows of the result stay contiguous.
  void write_transposed(const Node& node) {
    if (node.op != "transpose" || is_read_through(node.outputs[0]) || !value(node.outputs[0]).layout.is_identity())
      return;
    const std::vector<int64_t>& perm = node.ints_attr("perm");
    if (perm.empty() || perm.back() != static_cast<int64_t>(perm.size()) - 1) return;
    const Layout order = layout_of_order(perm);
    const std::vector<ValueId> chain = contraction_chain(node.inputs[0], order);
    for (const ValueId id : chain) {
      graph::Value& written = graph_.values[id];
      const Layout* known = find_layout(context_.layouts, written);
      written.layout = known != nullptr ? *known : order;
      if (context_.chosen != nullptr) context_.chosen->values[written.name] = written.layout;
      if (context_.log == nullptr) continue;
      Why why = because("write-transposed", "{}, its only reader, is a view of this order: no kernel", node.name);
      why.numbers = {{"next_best_bytes", 2.0 * static_cast<double>(value(id).type.bytes())}};
      context_.log->say_layout(value(id).name, std::move(why));
    }
  }

  // `id` and the values before it back to a contraction, each read by the next and by element-wise nodes; empty when
  // there is none, when one of them has another layout than `order` (which a plan may have given), or when an
  // element-wise node between reads something else of that shape.
  std::vector<ValueId> contraction_chain(ValueId id, const Layout& order) const {
    std::vector<ValueId> chain;
    const auto is_free = [&](const Layout& layout) { return layout.is_identity() || layout == order; };
    while (is_stored(id) && is_free(value(id).layout) && is_read_by_rows(id)) {
      chain.push_back(id);
      const Node& node = graph_.nodes[producers_[id]];
      const Role role = role_of(context_.ops, node);
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

  bool is_read_by_rows(ValueId id) const {
    return std::ranges::count_if(
               readers_[id], [&](int r) { return role_of(context_.ops, graph_.nodes[r]) != Role::kElementwise; }) <= 1;
  }

  Graph graph_;
  const TransformContext& context_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> producers_;
};

}  // namespace

graph::Graph write_transposed(const graph::Graph& graph, const TransformContext& context) {
  return TransposedWriter(graph::compact(graph), context).run();
}

}  // namespace tw::transform
