#include "driver/aliases.h"

#include <set>

#include "transform/storage_order.h"

namespace tw::driver {

using graph::ValueId;

std::map<ValueId, ValueId> find_aliases(const graph::Graph& graph) {
  std::map<ValueId, ValueId> aliases;
  std::set<ValueId> leaving;  // storages that hold a graph output already
  const auto root = [&](ValueId id) {
    while (aliases.count(id) != 0) id = aliases[id];
    return id;
  };
  for (const ValueId id : graph.outputs) leaving.insert(id);
  for (const graph::Node& node : graph.nodes) {
    if (!transform::is_view(graph, node)) continue;
    const ValueId out = node.outputs[0];
    const ValueId in = root(node.inputs[0]);
    const bool fixed = graph.producer(in) < 0;
    if (graph.is_output(out) && (fixed || !leaving.insert(in).second)) continue;
    aliases[out] = node.inputs[0];
  }
  return aliases;
}

}  // namespace tw::driver
