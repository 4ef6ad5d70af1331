#include "train/dropout.h"

#include <algorithm>

namespace tw::train {
namespace {

bool is_dropout(const graph::Node& node) { return node.op == "dropout"; }

}  // namespace

bool has_dropouts(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, is_dropout); }

void seed_dropouts(graph::Graph& graph, graph::ValueId seed, graph::ValueId run) {
  for (graph::Node& node : graph.nodes) {
    if (is_dropout(node)) node.inputs = {node.inputs.at(0), seed, run};
  }
}

}  // namespace tw::train
