// Dropouts of one step that drop the same elements, those of both directions, may share their bits: 1/8 of a byte for
// each element, written once and read by each of them, in place of a random number computed by each. Bits are made four
// to a counter, as the numbers come; who computes them element by element uses one or two of four. So it is less
// arithmetic and more traffic. On a GPU the arithmetic of an element takes several times as long as its bits, and the
// numbers that a product draws in registers, unrolled, take long to compile: there bits are stored. On CPUs they are of
// what is computed again, by one kernel after the other; else that is the variant "always", which is measured.
#include <algorithm>
#include <tuple>

#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// What decides which elements a dropout keeps.
using Key = std::tuple<std::vector<ValueId>, graph::Attrs, int64_t>;

std::map<Key, std::vector<Node>> dropouts_of(const Editor& editor) {
  std::map<Key, std::vector<Node>> found;
  editor.for_each_old([&](const Node& node) {
    if (node.op != "dropout" || node.inputs.size() != 3) return;
    const double ratio = node.float_attr("ratio");
    const int64_t elements = editor.type(node.inputs[0]).elements();
    if (ratio <= 0 || ratio >= 1 || elements == 0) return;
    graph::Attrs attrs = node.attrs;
    attrs.erase(std::string(kAgain));  // computed again, it drops the same
    found[{{node.inputs[1], node.inputs[2]}, attrs, elements}].push_back(node);
  });
  return found;
}

}  // namespace

graph::Graph store_masks(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  const auto is_again = [](const Node& node) { return node.has_attr(kAgain); };
  const bool always = context.variant == kAlways || context.target.kind == DeviceKind::kCuda;
  for (const auto& [key, nodes] : dropouts_of(editor)) {
    if (nodes.size() < 2 || !(always || std::ranges::any_of(nodes, is_again))) continue;
    auto [source, attrs, elements] = key;
    attrs["elements"] = elements;
    const ValueId bits = editor.emit(nodes[0], "dropout_bits", source, attrs);
    for (const Node& node : nodes) {
      const graph::Attrs ratio = {{"ratio", node.attrs.at("ratio")}};
      editor.replace(node.outputs[0], editor.emit(node, "dropout_by_bits", {node.inputs[0], bits}, ratio));
    }
  }
  return editor.finish();
}

}  // namespace tw::transform
