// Which algorithm computes a convolution: directly, or by Winograd's products of transformed tiles where the model of
// times says so. Source of the forms: Lavin & Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
#include <algorithm>
#include <cmath>

#include "ops/window.h"
#include "transform/constants.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using graph::kAbsent;
using graph::Node;
using graph::ValueId;

// Why a convolution has no form in the Winograd operators; empty when it has one.
std::string obstacle(const Editor& editor, const Node& node) {
  const graph::Value& weights = editor.value(node.inputs[1]);
  const Shape& w = weights.type.shape;
  if (weights.type.type != DataType::f32()) return "its elements are no f32";
  if (!weights.is_constant()) return "its weights are no constant";
  if (node.int_attr_or("group", 1) != 1) return "it has groups";
  if (w.size() < 4 || w[w.size() - 1] != 3 || w[w.size() - 2] != 3) return "its kernel is not 3 x 3";
  const ops::Window window = ops::window_of(graph::make_call(editor.graph(), node), Shape(w.begin() + 2, w.end()));
  for (size_t d = window.rank() - 2; d < window.rank(); ++d) {
    if (window.strides[d] != 1) return "its stride is not 1";
    if (window.dilations[d] != 1) return "it is dilated";
  }
  return "";
}

// The transformed weights, computed now: they are larger than the weights, so constant folding would leave them.
ValueId transformed_weights(Editor& editor, const Node& node, int64_t m) {
  Node transform{.op = "winograd_weights",
                 .name = node.name + ".weights",
                 .attrs = {{"m", m}},
                 .inputs = {node.inputs[1]},
                 .outputs = {},
                 .body = nullptr};
  const graph::Value& w = editor.value(node.inputs[1]);
  const graph::OpDef& op = editor.ops().at(transform.op);
  const graph::OpCall call = graph::make_call(editor.graph(), transform);
  const std::vector<graph::RefTensor> u = op.reference(call, std::vector{elements_of(w)});
  return editor.add_constant(w.name + "_winograd", op.infer(call)[0], bytes_of(u[0]));
}

void rewrite(Editor& editor, const Node& node, int64_t m) {
  Node conv = node;
  conv.op = "winograd_conv";
  conv.attrs = {{"m", m}};
  for (const char* kept : {"strides", "dilations", "pads"}) {
    if (node.has_attr(kept)) conv.attrs[kept] = node.attrs.at(kept);
  }
  conv.outputs.clear();
  conv.inputs[1] = transformed_weights(editor, node, m);
  editor.replace(node.outputs[0], editor.add(std::move(conv)));
}

// What the model of times knows of a convolution.
struct Problem {
  double in_channels = 0;
  double out_channels = 0;
  double taps = 1;               // of the kernel outside its last two axes, whose 3 x 3 are transformed
  double planes = 1;             // images and positions outside the last two axes
  double height = 0, width = 0;  // of the output
  double element_bytes = 4;
};

Problem problem_of(const Editor& editor, const Node& node) {
  const Shape& w = editor.type(node.inputs[1]).shape;
  const Shape& y = editor.type(node.outputs[0]).shape;
  Problem p;
  p.out_channels = static_cast<double>(w[0]);
  p.in_channels = static_cast<double>(w[1]);
  for (size_t d = 2; d + 2 < w.size(); ++d) {
    p.taps *= static_cast<double>(w[d]);
    p.planes *= static_cast<double>(y[d]);
  }
  p.planes *= static_cast<double>(y[0]);
  p.height = static_cast<double>(y[y.size() - 2]);
  p.width = static_cast<double>(y[y.size() - 1]);
  return p;
}

constexpr double kDirectShare = 0.9;     // of the FMA peak that a direct convolution reaches
constexpr double kWinogradShare = 0.75;  // the same of the products of a Winograd convolution
constexpr double kWeightShare = 0.6;     // of DRAM's read bandwidth at which weights arrive: each is used once a run

double weights_ns(const Problem& p, double weights_a_pair, const TargetInfo& target) {
  const double bytes = p.in_channels * p.out_channels * p.taps * weights_a_pair * p.element_bytes;
  return bytes / (kWeightShare * target.levels.back().read_per_ns);
}

double direct_ns(const Problem& p, const TargetInfo& target) {
  const double flop = 2 * 9 * p.taps * p.in_channels * p.out_channels * p.planes * p.height * p.width;
  return flop / (kDirectShare * target.flop_per_ns) + weights_ns(p, 9, target);
}

// F(m x m, 3 x 3): (m+2)^2 products a tile, transformed inputs and products written and read once in a near cache.
double winograd_ns(const Problem& p, double m, const TargetInfo& target) {
  const double points = (m + 2) * (m + 2);
  const double tiles = p.planes * std::ceil(p.height / m) * std::ceil(p.width / m);
  const double flop = 2 * points * p.taps * p.in_channels * p.out_channels * tiles;
  const double moved = 2 * points * tiles * (p.in_channels + p.out_channels) * p.element_bytes;
  const MemoryLevel& near = target.levels[std::min<size_t>(1, target.levels.size() - 1)];
  return flop / (kWinogradShare * target.flop_per_ns) + moved / near.read_per_ns + weights_ns(p, points, target);
}

// The tile size m of the fastest Winograd form; 0 when the direct convolution is as fast.
int64_t best_tile(const Problem& p, const TargetInfo& target) {
  constexpr double kLeastChannels = 16;  // fewer leave vectors and register tiles half empty
  if (std::min(p.in_channels, p.out_channels) < kLeastChannels) return 0;
  int64_t best = 0;
  double best_ns = direct_ns(p, target);
  for (const int64_t m : {4, 2}) {
    const double ns = winograd_ns(p, static_cast<double>(m), target);
    if (ns >= best_ns) continue;
    best = m;
    best_ns = ns;
  }
  return best;
}

}  // namespace

graph::Graph choose_algorithms(const graph::Graph& graph, const TransformContext& context) {
  const bool has_figures = context.target.kind == DeviceKind::kCpu && !context.target.levels.empty();
  if (context.precision == Precision::kStrict || !has_figures) return graph;
  Editor editor(graph::compact(graph), context.ops);
  const size_t count = editor.node_count();
  for (size_t n = 0; n < count; ++n) {
    if (editor.is_dead(n) || editor.node(n).op != "conv") continue;
    const Node node = editor.node(n);
    if (!obstacle(editor, node).empty()) continue;
    const int64_t m = best_tile(problem_of(editor, node), context.target);
    if (m > 0) rewrite(editor, node, m);
  }
  return editor.finish();
}

}  // namespace tw::transform
