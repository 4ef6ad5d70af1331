#include <optional>

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

}  // namespace

graph::Graph choose_algorithms(const graph::Graph& graph, const TransformContext& context) {
  if (context.precision == Precision::kStrict) return graph;
  Editor editor(graph::compact(graph), context.ops);
  const size_t count = editor.node_count();
  for (size_t n = 0; n < count; ++n) {
    if (editor.is_dead(n) || editor.node(n).op != "conv") continue;
    const Node node = editor.node(n);
    if (!obstacle(editor, node).empty()) continue;
    int64_t m = 4;
    if (const char* e = getenv("WINO_M")) m = atoi(e);
    if (editor.type(node.outputs[0]).shape[1] >= 16 && editor.type(node.inputs[0]).shape[1] >= 16 && m > 0)
      rewrite(editor, node, m);
  }
  return editor.finish();
}

}  // namespace tw::transform
