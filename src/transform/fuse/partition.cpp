#include "transform/group.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// Outputs that are inputs or constants get a copy: the runtime writes outputs and reads the others. The copy of a
// constant takes its name, as outputs are found by it; an input keeps its own.
Graph copy_unproduced_outputs(const Graph& graph) {
  const std::vector<int> producers = graph.producers();
  Graph result = graph;
  for (ValueId& out : result.outputs) {
    if (producers.at(out) >= 0) continue;
    const std::string name = result.values[out].name;
    const ValueId copy =
        result.add_node({.op = "identity", .name = name, .inputs = {out}}, {result.values[out].type})[0];
    if (result.values[out].is_constant()) std::swap(result.values[out].name, result.values[copy].name);
    out = copy;
  }
  return result;
}

}  // namespace

Graph partition(const Graph& graph, const TransformContext&) {
  const Graph complete = copy_unproduced_outputs(graph::compact(graph));
  std::vector<std::vector<int>> clusters;
  for (size_t n = 0; n < complete.nodes.size(); ++n) {
    if (!complete.nodes[n].is_group()) clusters.push_back({static_cast<int>(n)});
  }
  return form_groups(complete, clusters);
}

}  // namespace tw::transform
