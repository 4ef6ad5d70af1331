// Quantizing multiplies by the inverse of a constant scale, which is rounded once: where a quotient lies within two
// units in the last place of the middle between two numbers, the other one may be taken. Products take a cycle where
// divisions take ten.
#include <algorithm>

#include "transform/passes.h"
#include "transform/quantize/linear.h"

namespace tw::transform {

graph::Graph quantize_by_products(const graph::Graph& graph, const TransformContext& context) {
  if (context.precision == Precision::kStrict) return graph;
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op != "cast") return;
    const std::optional<Quantization> q = quantization_of(editor, node.outputs[0]);
    if (!q || q->is_inverse || editor.use_count(q->quotient) != 1 || !editor.value(q->scale).is_constant()) return;
    graph::RefTensor inverse = elements_of(editor.value(q->scale));
    for (double& scale : inverse.floats) scale = 1 / scale;
    if (!std::ranges::all_of(inverse.floats, [](double x) { return std::isnormal(static_cast<float>(x)); })) return;
    const ValueId factor = editor.add_constant(editor.value(q->scale).name + ".inverse", inverse);
    editor.replace(q->quotient, editor.emit(node, "mul", {q->real, factor}));
  });
  return editor.finish();
}

}  // namespace tw::transform
