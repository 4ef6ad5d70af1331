// Matrix products and convolutions of f32 as products of tf32 (expr/tf32.h): activations are rounded where they are
// multiplied, toward zero, as instructions do; constant weights here, to the nearest, which leaves half of the error.
#include "expr/tf32.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// Whether `node` is a product of f32 matrices that fill instructions; conv: weights [out channels, channels, window..].
bool fills_instructions(const Editor& editor, const Node& node) {
  constexpr int64_t kMin = 16;  // rows, columns and steps
  const bool conv = node.op == "conv";
  if (!(conv || node.op == "matmul") || editor.type(node.inputs[0]).type != DataType::f32()) return false;
  const Shape &a = editor.type(node.inputs[0]).shape, &b = editor.type(node.inputs[1]).shape;
  const int64_t weights = num_elements(b), results = editor.type(node.outputs[0]).elements();
  if (weights == 0 || results == 0 || a.size() < 2 || b.size() < 2) return false;
  const int64_t groups = conv ? node.int_attr_or("group", 1) : weights / (b.back() * b[b.size() - 2]);
  const int64_t columns = conv ? b[0] / groups : b.back(), steps = conv ? weights / b[0] : a.back();
  return results / groups / columns >= kMin && columns >= kMin && steps >= kMin;
}

ValueId nearest(Editor& editor, const graph::Value& constant) {
  graph::RefTensor all = elements_of(constant);
  for (double& x : all.floats) x = nearest_tf32(static_cast<float>(x));
  return editor.add_constant(constant.name + "_tf32", all);
}

}  // namespace

graph::Graph round_operands(const graph::Graph& graph, const TransformContext& context) {
  if (context.precision != Precision::kFast || !has_feature(context.target, "tf32")) return graph;
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (!fills_instructions(editor, node)) return;
    Node rounded = node;
    for (ValueId& operand : std::span(rounded.inputs).first(2)) {
      if (editor.value(operand).is_constant()) operand = nearest(editor, graph::Value(editor.value(operand)));
    }
    rounded.attrs["operands"] = std::string("tf32");
    editor.replace(node.outputs[0], editor.add(std::move(rounded)));
  });
  return eliminate_common_subexpressions(editor.finish(), context);  // constants that several products have
}

}  // namespace tw::transform
