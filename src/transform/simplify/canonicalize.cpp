#include "transform/passes.h"
#include "transform/rules.h"

namespace tw::transform {
namespace {

constexpr size_t kMaxSweeps = 100;  // each rule shortens something or moves a reshape one way: few are ever needed

}  // namespace

bool apply_rules(Editor& editor, std::span<const Rule> rules, size_t n) {
  bool changed = false;
  for (const Rule& rule : rules) {
    if (editor.is_dead(n)) break;
    const bool looks = rule.op.empty() || rule.op == editor.node(n).op;
    if (looks) changed = rule.apply(editor, Node(editor.node(n))) || changed;
  }
  return changed;
}

void apply_to_all(Editor& editor, std::span<const std::span<const Rule>> all) {
  bool changed = true;
  for (size_t sweep = 0; changed; ++sweep) {
    TW_CHECK(sweep < kMaxSweeps, "canonicalization of '{}' does not end", editor.graph().name);
    changed = false;
    for (size_t n = 0; n < editor.node_count(); ++n) {  // rules append nodes
      for (const std::span<const Rule> rules : all) changed = apply_rules(editor, rules, n) || changed;
    }
  }
}

graph::Graph canonicalize(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  const std::span<const Rule> all[] = {movement_rules(), order_rules(), arithmetic_rules(),
                                       pattern_rules(),  gelu_rules(),  window_rules()};
  apply_to_all(editor, all);
  return editor.finish();
}

}  // namespace tw::transform
