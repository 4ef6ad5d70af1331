#include <algorithm>

#include "support/join.h"
#include "transform/train/differentiate.h"

namespace tw::transform {

namespace {

// Of each node from `first` on, whether a reduction is made of it, or it is one.
std::vector<bool> are_summed(const graph::Graph& graph, const graph::OpTable& ops, size_t first) {
  const std::vector<std::vector<int>> consumers = graph.consumers();
  std::vector<bool> summed(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > first;) {
    summed[n] = ops.at(graph.nodes[n].op).op_class == graph::OpClass::kReduction;
    for (const graph::ValueId out : graph.nodes[n].outputs) {
      for (const int reader : consumers[static_cast<size_t>(out)])
        summed[n] = summed[n] || summed[static_cast<size_t>(reader)];
    }
  }
  return summed;
}

}  // namespace

void place_early(graph::Graph& graph, const graph::OpTable& ops, size_t first) {
  const std::vector<int> producers = graph.producers();
  const std::vector<bool> summed = are_summed(graph, ops, first);
  const size_t count = graph.nodes.size();
  std::vector<size_t> behind(count);  // the node of the old order that a node stands behind, or is
  for (size_t n = 0; n < count; ++n) {
    size_t last = 0;
    bool moves = summed[n];
    for (const graph::ValueId in : graph.nodes[n].inputs) {
      if (in == graph::kAbsent) continue;
      const int producer = producers[static_cast<size_t>(in)];
      const graph::Value& value = graph.value(in);
      moves = moves && (producer >= 0 || value.is_constant() || value.type.elements() == 1);
      if (producer >= 0) last = std::max(last, behind[static_cast<size_t>(producer)]);
    }
    behind[n] = moves ? last : n;
  }
  std::vector<size_t> order = sequence<size_t>(count);
  std::ranges::stable_sort(order, {}, [&](size_t n) { return behind[n]; });
  std::vector<graph::Node> nodes = mapped(order, [&](const size_t n) { return std::move(graph.nodes[n]); });
  graph.nodes = std::move(nodes);
}

}  // namespace tw::transform
