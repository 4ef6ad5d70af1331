#include "train/random_numbers.h"

#include <algorithm>

#include "transform/editor.h"

namespace tw::train {
namespace {

using graph::Node;
using graph::RefTensor;
using graph::ValueId;
using transform::Editor;

// The number that all elements of `id` are; nothing where they are others, or not known.
std::optional<double> number_everywhere(const Editor& editor, ValueId id) {
  if (const Node* moved = editor.producer(id); moved != nullptr && (moved->op == "expand" || moved->op == "reshape"))
    return number_everywhere(editor, moved->inputs[0]);
  return transform::splat_of(editor.value(id));
}

// The node, if its numbers are uniform from 0 to 1.
const Node* unit_noise(const Editor& editor, ValueId id) {
  const Node* noise = editor.producer(id, "noise_uniform");
  const bool is_unit =
      noise != nullptr && noise->float_attr_or("span", 1) == 1 && number_everywhere(editor, noise->inputs[0]) == 0.5;
  return is_unit ? noise : nullptr;
}

struct Bernoulli {
  Node noise;
  double probability;
};

// What `node` is, if it is 1 with some probability and else 0.
std::optional<Bernoulli> bernoulli_of(const Editor& editor, const Node& node) {
  const bool compares = node.op == "cast" && editor.type(node.outputs[0]).type.is_float();
  if (!compares && node.op != "floor") return std::nullopt;
  const Node* inner = editor.producer(node.inputs[0], compares ? "less" : "add");
  if (inner == nullptr) return std::nullopt;
  for (const size_t at : {0, 1}) {
    const Node* noise = unit_noise(editor, inner->inputs[at]);
    if (noise == nullptr || (compares && at == 1)) continue;
    const std::optional<double> p = number_everywhere(editor, inner->inputs[1 - at]);
    const bool same_shape = editor.shape(node.outputs[0]) == editor.shape(noise->outputs[0]);
    if (p && same_shape && *p > 0 && *p <= 1) return Bernoulli{*noise, *p};
  }
  return std::nullopt;
}

}  // namespace

bool draws_numbers(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, graph::draws_numbers); }

graph::Graph with_dropouts_of_ones(const graph::Graph& graph, const graph::OpTable& ops) {
  Editor editor(graph, ops);
  editor.for_each_old([&](const Node& node) {
    const std::optional<Bernoulli> drawn = bernoulli_of(editor, node);
    if (!drawn) return;
    const TensorType& type = editor.type(node.outputs[0]);
    RefTensor ones = RefTensor::zeros(type);
    std::ranges::fill(ones.floats, 1);
    graph::Attrs attrs = drawn->noise.attrs;
    attrs.erase("span");
    attrs["ratio"] = 1 - drawn->probability;
    const ValueId kept = editor.emit(node, "dropout", {editor.add_constant(node.name + ".ones", ones)}, attrs);
    const ValueId p = editor.add_constant(node.name + ".probability", {type.type, {}},
                                          transform::scalar_bytes(type.type, drawn->probability));
    editor.replace(node.outputs[0], editor.emit(node, "mul", {kept, p}));
  });
  return editor.finish();
}

void seed_numbers(graph::Graph& graph, graph::ValueId seed, graph::ValueId run) {
  for (Node& node : graph.nodes) {
    if (graph::draws_numbers(node)) node.inputs = {node.inputs.at(0), seed, run};
  }
}

}  // namespace tw::train
