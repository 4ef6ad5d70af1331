#include "transform/train/place_early.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tw::transform {

void place_early(graph::Graph& graph, size_t first) {
  const std::vector<int> producers = graph.producers();
  const size_t count = graph.nodes.size();
  std::vector<size_t> behind(count);  // the node before `first` that a node stands behind, or is
  for (size_t n = 0; n < count; ++n) {
    behind[n] = n < first ? n : 0;
    for (const graph::ValueId in : graph.nodes[n].inputs) {
      const int producer = in == graph::kAbsent ? -1 : producers[static_cast<size_t>(in)];
      if (n >= first && producer >= 0) behind[n] = std::max(behind[n], behind[static_cast<size_t>(producer)]);
    }
  }
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t n) { return behind[n]; });
  std::vector<graph::Node> nodes;
  for (const size_t n : order) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
}

}  // namespace tw::transform
