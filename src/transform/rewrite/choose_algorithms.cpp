// The algorithm of every convolution: direct, or Winograd's with tiles of 2 x 2 or 4 x 4 outputs where that is possible
// and the model of conv_cost.h predicts that it is faster. Constant weights are transformed here, others in each run;
// where they will lie while the model runs depends on how large all of them become, so that the choice is made twice at
// most.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "ops/window.h"
#include "ops/winograd.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/rewrite/conv_cost.h"
#include "transform/rewrite/winograd_weights.h"

namespace tw::transform {
namespace {

constexpr int64_t kAlgorithms[] = {4, 2};  // tile sizes; 0 is the direct algorithm
constexpr double kWorthIt = 0.95;          // of the direct time: what the model cannot tell stays direct
constexpr int64_t kMinChannels = 8;        // fewer are not worth it
constexpr double kCacheForWeights = 0.5;   // share of the last cache; activations and other programs need the rest

struct Choice {
  size_t node = 0;
  ConvProblem problem;
  int64_t m = 0;
};

std::span<const float> floats_of(const graph::Value& constant) {
  return {reinterpret_cast<const float*>(constant.constant->data()), static_cast<size_t>(constant.type.elements())};
}

// The convolution of `node` as a problem of the cost model, when it has a form in the Winograd operators, and one that
// the family of schedules takes.
std::optional<ConvProblem> winograd_problem(const Editor& editor, const Node& node, const TargetInfo& target) {
  const graph::Value& weights = editor.value(node.inputs[1]);
  const Shape& w = weights.type.shape;
  const size_t rank = w.size() - 2;
  if (weights.type.type != DataType::f32() || node.int_attr_or("group", 1) != 1) return std::nullopt;
  if (rank < 2 || rank > 3 || w[rank] != 3 || w[rank + 1] != 3) return std::nullopt;
  const ops::Window window = ops::window_of(graph::make_call(editor.graph(), node), Shape(w.begin() + 2, w.end()));
  for (size_t d = rank - 2; d < rank; ++d) {
    if (window.strides[d] != 1 || window.dilations[d] != 1) return std::nullopt;
  }
  ConvProblem p{.batch = editor.type(node.inputs[0]).shape[0], .channels = w[1], .out_channels = w[0]};
  p.high = window.out[rank - 2];
  p.wide = window.out[rank - 1];
  p.computed_weights = !weights.is_constant();
  if (rank == 3) {
    p.depth = std::max(window.highest(0), window.in[0] - 1) - std::min<int64_t>(0, window.lowest(0)) + 1;
    p.out_depth = window.out[0];
    p.kernel_depth = w[2];
  }
  const bool empty = p.batch == 0 || p.high == 0 || p.wide == 0 || p.out_depth == 0;
  const bool flat = rank == 3 && (p.depth == 1) != (p.out_depth == 1);
  const int64_t min = std::max<int64_t>(kMinChannels, target.lanes(DataType::f32()));
  const bool narrow = p.channels < min || p.out_channels < min;
  return empty || flat || narrow ? std::nullopt : std::optional(p);
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

int64_t best_algorithm(const ConvProblem& problem, WeightsHome home, const TargetInfo& target) {
  int64_t best = 0;
  double min = kWorthIt * conv_ns(problem, 0, home, target);
  for (const int64_t m : kAlgorithms) {
    // Tiles of one row or one column are no matrix, and mostly multiplications by padding.
    if (problem.high <= m || problem.wide <= m) continue;
    const double ns = conv_ns(problem, m, home, target);
    if (ns >= min) continue;
    best = m;
    min = ns;
  }
  return best;
}

int64_t kept_bytes(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const graph::Value& value : graph.values) bytes += value.is_kept() ? value.type.bytes() : 0;
  return bytes;
}

void choose(std::vector<Choice>& choices, int64_t other_bytes, const TargetInfo& target) {
  const auto count = static_cast<int64_t>(target.levels.size());
  const auto cache = count < 2 ? int64_t{0} : target.levels[count - 2].capacity_bytes;
  const auto limit = static_cast<int64_t>(kCacheForWeights * static_cast<double>(cache));
  for (const WeightsHome home : {WeightsHome::kSharedCache, WeightsHome::kMemory}) {
    int64_t bytes = other_bytes;
    for (Choice& c : choices) {
      c.m = best_algorithm(c.problem, home, target);
      bytes += conv_weight_bytes(c.problem, c.m) - conv_weight_bytes(c.problem, 0);
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
  const size_t levels = target.levels.size();
  const bool has_parameters = target.kind == DeviceKind::kCpu && target.flop_per_ns > 0 && levels > 1 &&
                              target.levels[levels - 1].all_per_ns > 0 && target.levels[levels - 2].all_per_ns > 0;
  if (context.precision == Precision::kStrict || !has_parameters) return graph;
  Editor editor(graph, context.ops);
  std::vector<Choice> choices = candidates(editor, target);
  choose(choices, kept_bytes(editor.graph()), target);
  for (const Choice& c : choices) {
    if (c.m != 0) rewrite(editor, Node(editor.node(c.node)), c.m);
  }
  return editor.finish();
}

}  // namespace tw::transform
