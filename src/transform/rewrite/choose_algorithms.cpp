// The algorithm of every convolution: direct, or Winograd's with tiles of 2 x 2 or 4 x 4 outputs where that is possible
// and the model of cost/convolution.h predicts that it is faster. Constant weights are transformed here, others in each
// run; where they will lie while the model runs depends on how large all of them become, so that the choice is made
// twice at most.
#include <cstring>

#include "cost/calibrated.h"
#include "ops/winograd.h"
#include "transform/passes.h"
#include "transform/rewrite/winograd_weights.h"
#include "transform/winograd_problem.h"

namespace tw::transform {
namespace {

struct Choice {
  size_t node = 0;
  cost::ConvProblem problem;
  int64_t m = 0;
};

std::span<const float> floats_of(const graph::Value& constant) {
  return {reinterpret_cast<const float*>(constant.constant->data()), static_cast<size_t>(constant.type.elements())};
}

std::vector<Choice> candidates(const Editor& editor, const TargetInfo& target) {
  std::vector<Choice> found;
  for (size_t n = 0; n < editor.node_count(); ++n) {
    if (editor.is_dead(n) || editor.node(n).op != "conv") continue;
    const auto problem = winograd_problem(editor, editor.node(n), target);
    if (!problem) continue;
    const graph::Value& w = editor.value(editor.node(n).inputs[1]);
    if (!w.is_constant() || ops::suits_winograd(w.type.shape, floats_of(w).data())) found.push_back({n, *problem, 0});
  }
  return found;
}

int64_t kept_bytes(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const graph::Value& value : graph.values) bytes += value.is_kept() ? value.type.bytes() : 0;
  return bytes;
}

void choose(std::vector<Choice>& choices, int64_t other_bytes, const TargetInfo& target) {
  const auto count = static_cast<int64_t>(target.levels.size());
  const auto cache = count < 2 ? int64_t{0} : target.levels[count - 2].capacity_bytes;
  const auto limit = static_cast<int64_t>(cost::kKeptShare * static_cast<double>(cache));
  for (const auto home : {cost::WeightsHome::kSharedCache, cost::WeightsHome::kMemory}) {
    int64_t bytes = other_bytes;
    for (Choice& c : choices) {
      c.m = cost::best_algorithm(c.problem, home, target);
      bytes += cost::conv_weight_bytes(c.problem, c.m) - cost::conv_weight_bytes(c.problem, 0);
    }
    if (bytes <= limit) return;
  }
}

// The transformed weights, computed now: they are larger than the weights, so constant folding would leave them.
ValueId transformed_weights(Editor& editor, const Node& node, int64_t m) {
  const graph::Value w = editor.value(node.inputs[1]);
  const Shape shape = ops::winograd_weights_shape(w.type.shape, m);
  std::vector<std::byte> bytes(num_elements(shape) * sizeof(float));
  ops::transform_winograd_weights(w.type.shape, m, floats_of(w).data(), reinterpret_cast<float*>(bytes.data()));
  return editor.add_constant(w.name + "_winograd", {w.type.type, shape}, std::move(bytes));
}

ValueId scales_of(Editor& editor, const Node& node) {
  const graph::Value w = editor.value(node.inputs[1]);
  const std::vector<float> scales = ops::winograd_scales(w.type.shape, floats_of(w).data());
  std::vector<std::byte> bytes(scales.size() * sizeof(float));
  std::memcpy(bytes.data(), scales.data(), bytes.size());
  return editor.add_constant(w.name + "_scales", {w.type.type, {w.type.shape[1]}}, std::move(bytes));
}

void rewrite(Editor& editor, const Node& node, int64_t m) {
  Node conv = node;
  conv.op = "winograd_conv";
  conv.attrs = {{"m", m}};
  for (const char* kept : {"strides", "dilations", "pads"}) {
    if (node.has_attr(kept)) conv.attrs[kept] = node.attrs.at(kept);
  }
  const WinogradWeights weights = editor.value(node.inputs[1]).is_constant()
                                      ? WinogradWeights{transformed_weights(editor, node, m), scales_of(editor, node)}
                                      : compute_winograd_weights(editor, node, m);
  conv.inputs = {node.inputs[0], weights.transformed, node.inputs[1], weights.scales};
  if (node.inputs.size() > 2 && node.inputs[2] != graph::kAbsent) conv.inputs.push_back(node.inputs[2]);
  editor.replace(node.outputs[0], editor.add(std::move(conv)));
}

}  // namespace

graph::Graph choose_algorithms(const graph::Graph& graph, const TransformContext& context) {
  const TargetInfo& target = context.target;
  if (context.precision == Precision::kStrict || !cost::times_convolutions(target)) return graph;
  Editor editor(graph, context.ops);
  std::vector<Choice> choices = candidates(editor, target);
  choose(choices, kept_bytes(editor.graph()), target);
  for (const Choice& c : choices) {
    if (c.m != 0) rewrite(editor, Node(editor.node(c.node)), c.m);
  }
  return editor.finish();
}

}  // namespace tw::transform
