#include "train/dropout.h"

#include <algorithm>

namespace tw::train {
namespace {

bool is_dropout(const graph::Node& node) { return node.op == "dropout"; }

}  // namespace

bool has_dropouts(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, is_dropout); }

void seed_dropouts(graph::Graph& graph, graph::ValueId step) {
  const TensorType number{DataType::i64(), {}};
  const graph::ValueId seed = graph.add_input("seed", number);
  const graph::ValueId count = graph.add_value("step.number", number);
  for (graph::Node& node : graph.nodes) {
    if (is_dropout(node)) node.inputs = {node.inputs.at(0), seed, count};
  }
  graph::Node cast{.op = "cast", .name = "step.number", .attrs = {{"to", std::string("i64")}}};
  cast.inputs = {step};
  cast.outputs = {count};
  graph.nodes.insert(graph.nodes.begin(), std::move(cast));
}

}  // namespace tw::train
