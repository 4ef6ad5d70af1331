#include "transform/editor.h"
#include "transform/loops/unroll.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// The loop with the constants among what is the same in every turn inside of its body.
Node with_constants_inside(const Editor& editor, const Node& loop) {
  const graph::Repeat repeat = graph::repeat_of(loop);
  Node out = loop;
  Graph body = *loop.body;
  out.inputs.clear();
  body.inputs.clear();
  for (size_t k = 0; k < loop.inputs.size(); ++k) {
    const graph::Value& given = editor.value(loop.inputs[k]);
    const ValueId inside = loop.body->inputs[k];
    if (k >= repeat.carried + repeat.scanned && given.is_constant()) {
      body.values[inside].constant = given.constant;
    } else {
      out.inputs.push_back(loop.inputs[k]);
      body.inputs.push_back(inside);
    }
  }
  out.body = std::make_shared<const Graph>(std::move(body));
  return out;
}

}  // namespace

Graph hold_constants(const Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op != graph::kRepeat) return;
    Node held = with_constants_inside(editor, node);
    if (held.inputs.size() == node.inputs.size() || held.inputs.empty()) return;
    const std::vector<ValueId> made = editor.add_all(std::move(held));
    for (size_t j = 0; j < made.size(); ++j) editor.replace(node.outputs[j], made[j]);
  });
  return editor.finish();
}

}  // namespace tw::transform
