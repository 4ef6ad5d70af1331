// Storage layouts of intermediate values (mechanism A4): row-major or channels last, as the least-cost labelling of the
// whole graph has it (layout_problem.h). Whoever reads a value reads it in its own layout, so any choice is correct;
// where a reader has an order of its own, an identity transpose copies the value to that order: a group of its own,
// shared by all such readers.
#include <map>
#include <numeric>

#include "transform/layout/layout_problem.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

class LayoutAssigner {
 public:
  LayoutAssigner(const Graph& graph, LayoutChoice choice) : graph_(graph), choice_(std::move(choice)) {
    for (const OrderedRead& r : choice_.reads) reads_[{r.node, r.input}] = r.channels_last;
  }

  Graph run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node node = nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != graph::kAbsent) node.inputs[i] = input(static_cast<int>(n), i, node.inputs[i]);
      }
      std::vector<ValueId> leaving;
      for (ValueId& out : node.outputs) {
        if (!choice_.channels_last[out]) continue;
        if (graph_.is_output(out)) leaving.push_back(out);
        out = stored_last(out);
      }
      graph_.nodes.push_back(std::move(node));
      for (const ValueId out : leaving) add_copy(stored_last(out), out);
    }
    return graph::compact(graph_);
  }

 private:
  // The value that input `i` of node `n` reads instead of `id`.
  ValueId input(int n, size_t i, ValueId id) {
    const auto ordered = reads_.find({n, i});
    const bool written_last = choice_.channels_last[id];
    const bool wanted_last = ordered == reads_.end() ? written_last : ordered->second;
    if (wanted_last == written_last || (!wanted_last && graph_.is_output(id)))
      return wanted_last ? stored_last(id) : id;
    const auto [copy, fresh] = copies_.try_emplace(id, graph::kAbsent);
    if (fresh) {
      copy->second = wanted_last ? in_order(id, "_channels_last", last_of(id)) : in_order(id, "_rows", Layout());
      add_copy(written_last ? stored_last(id) : id, copy->second);
    }
    return copy->second;
  }

  // `id` as its producer writes it, channels last. What leaves the graph is row-major: a copy of that.
  ValueId stored_last(ValueId id) {
    if (!graph_.is_output(id)) {
      graph_.values[id].layout = last_of(id);
      return id;
    }
    const auto [stored, fresh] = stored_.try_emplace(id, graph::kAbsent);
    if (fresh) stored->second = in_order(id, "_channels_last", last_of(id));
    return stored->second;
  }

  Layout last_of(ValueId id) const { return channels_last(static_cast<int>(graph_.value(id).type.shape.size())); }

  ValueId in_order(ValueId id, const std::string& suffix, const Layout& layout) {
    const graph::Value source = graph_.value(id);
    const ValueId made = graph_.add_value(source.name + suffix, source.type);
    graph_.values[made].layout = layout;
    return made;
  }

  void add_copy(ValueId from, ValueId to) {
    std::vector<int64_t> order(graph_.value(from).type.shape.size());
    std::iota(order.begin(), order.end(), 0);
    graph_.nodes.push_back({.op = "transpose",
                            .name = graph_.value(to).name + "_layout",
                            .attrs = {{"perm", order}},
                            .inputs = {from},
                            .outputs = {to}});
  }

  Graph graph_;
  LayoutChoice choice_;
  std::map<std::pair<int, size_t>, bool> reads_;
  std::map<ValueId, ValueId> stored_;  // of outputs: the value that their producers write
  std::map<ValueId, ValueId> copies_;  // in the other order
};

}  // namespace

graph::Graph assign_layouts(const graph::Graph& graph, const TransformContext& context) {
  const Graph compacted = graph::compact(graph);
  return LayoutAssigner(compacted, choose_layouts(compacted, context.ops, context.target)).run();
}

}  // namespace tw::transform
