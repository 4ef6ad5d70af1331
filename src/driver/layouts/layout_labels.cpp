#include "driver/layouts/layout_labels.h"

#include "support/join.h"
#include "transform/layout/reorder_values.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

constexpr size_t kMostDims = 4;  // whose orders are all tried: 24

/// Whether a dim of a value's storage is one with that behind it, to all groups so far.
using Joined = std::map<graph::ValueId, std::vector<bool>>;

void add(const std::map<graph::ValueId, std::vector<bool>>& group, Joined& all) {
  for (const auto& [id, here] : group) {
    const auto [found, fresh] = all.try_emplace(id, here);
    for (size_t d = 0; !fresh && d < here.size(); ++d) found->second[d] = found->second[d] && here[d];
  }
}

// The dims of `value` as it is stored, those that never part as one.
std::vector<std::vector<int64_t>> parts_of(const graph::Value& value, const std::vector<bool>& joined) {
  const auto order = transform::storage_order(value.layout, value.type.shape.size());
  if (!order) return {};
  std::vector<std::vector<int64_t>> parts;
  for (size_t d = 0; d < order->size(); ++d) {
    if (d == 0 || !joined[d - 1]) parts.emplace_back();
    parts.back().push_back((*order)[d]);
  }
  return parts;
}

std::vector<Layout> layouts_of(const graph::Value& value, const std::vector<bool>& joined) {
  std::vector<Layout> layouts = {value.layout};
  const std::vector<std::vector<int64_t>> parts = parts_of(value, joined);
  if (parts.size() > kMostDims) return layouts;
  std::vector<size_t> turn = sequence<size_t>(parts.size());
  while (std::next_permutation(turn.begin(), turn.end())) {
    std::vector<int64_t> order;
    for (const size_t p : turn) order.insert(order.end(), parts[p].begin(), parts[p].end());
    const Layout layout = transform::layout_of_order(order);
    const auto is_same = [&](const Layout& known) { return transform::same_bytes(value.type.shape, known, layout); };
    if (std::ranges::none_of(layouts, is_same)) layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace

std::map<graph::ValueId, std::vector<Layout>> layout_labels(const LayoutTask& task) {
  const graph::Graph& graph = task.groups.graph;
  Joined joined;
  std::map<graph::ValueId, bool> is_pinned;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    const bool is_fixed = task.groups.is_loop(n) || !task.groups.te[n].in_place.empty();
    if (!task.groups.is_view(n) && is_fixed) {
      for (const auto* ids : {&node.inputs, &node.outputs}) {
        for (const graph::ValueId id : *ids) is_pinned[id] = true;
      }
      continue;
    }
    add(joined_dims({graph, node, task.ops, task.target, task.states}), joined);
  }
  std::map<graph::ValueId, std::vector<Layout>> labels;
  for (const auto& [id, of_value] : joined) {
    if (is_pinned[id] || !transform::is_between_groups(graph, id, task.states)) continue;
    labels[id] = layouts_of(graph.value(id), of_value);
  }
  return labels;
}

}  // namespace tw::driver
