// One element of each row of a softmax, as a loss takes: a read at a computed place wants whole rows in memory. The sum
// of the row there and of zeros elsewhere is one more number of the row's own kernel.
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// The axis along which the node reads an element of each row of a softmax; nothing where it does something else.
std::optional<int64_t> axis_picked(const Editor& editor, const Node& node) {
  if (node.op != "gather_elements" || editor.value(node.inputs[1]).is_constant()) return std::nullopt;
  const Node* rows = editor.producer(node.inputs[0]);
  if (rows == nullptr || (rows->op != "softmax" && rows->op != "log_softmax")) return std::nullopt;
  Shape one = editor.shape(node.inputs[0]);
  const auto rank = static_cast<int64_t>(one.size());
  const auto axis_of = [&](const Node& n, int64_t usual) { return (n.int_attr_or("axis", usual) + rank) % rank; };
  const int64_t axis = axis_of(node, 0);
  one[axis] = 1;
  if (editor.graph().is_output(node.inputs[0]) || rows->outputs.size() > 1) return std::nullopt;
  return axis == axis_of(*rows, -1) && editor.shape(node.inputs[1]) == one ? std::optional(axis) : std::nullopt;
}

ValueId number(Editor& editor, const Node& like, DataType type, int64_t value) {
  graph::RefTensor elements = graph::RefTensor::zeros({type, {}});
  if (!type.is_float()) elements.ints[0] = value;
  return editor.add_constant(like.name + ".number", elements);
}

// The index, of which one below zero counts from the last element.
ValueId from_first(Editor& editor, const Node& node, int64_t extent) {
  const DataType type = editor.type(node.inputs[1]).type;
  const ValueId below = editor.emit(node, "less", {node.inputs[1], number(editor, node, type, 0)});
  const ValueId from_last = editor.emit(node, "add", {node.inputs[1], number(editor, node, type, extent)});
  return editor.emit(node, "where", {below, from_last, node.inputs[1]});
}

void sum_instead(Editor& editor, const Node& node, int64_t axis) {
  const int64_t extent = editor.shape(node.inputs[0])[axis];
  const ValueId picked = editor.emit(node, "pick", {from_first(editor, node, extent), node.inputs[0]},
                                     {{"axis", axis}, {"extent", extent}});
  editor.replace(node.outputs[0],
                 editor.emit(node, "reduce_sum", {picked}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}}));
}

// The sum along the axis of what is the same in all of a row, picked: that, where the index is one of the row.
void take_instead(Editor& editor, const Node& sum) {
  const Node* found = editor.producer(sum.inputs[0], "pick");
  if (found == nullptr || !sum.has_attr("axes")) return;
  const Node pick = *found;
  const int64_t axis = pick.int_attr("axis"), extent = pick.int_attr("extent");
  const Shape rows = editor.shape(sum.inputs[0]), x = editor.shape(pick.inputs[1]);
  const auto place = std::ssize(x) - std::ssize(rows) + axis;
  if (sum.ints_attr("axes") != Ints{axis} || (place >= 0 && x[place] != 1)) return;
  const DataType index = editor.type(pick.inputs[0]).type;
  const ValueId from = editor.emit(sum, "greater_equal", {pick.inputs[0], number(editor, sum, index, 0)}),
                to = editor.emit(sum, "less", {pick.inputs[0], number(editor, sum, index, extent)});
  const ValueId zero = number(editor, sum, editor.type(pick.inputs[1]).type, 0);
  const ValueId taken = editor.emit(sum, "where", {editor.emit(sum, "and", {from, to}), pick.inputs[1], zero});
  Shape one = rows;
  one[axis] = 1;
  if (editor.shape(taken) != one) return;
  editor.replace(sum.outputs[0], editor.emit(sum, "reshape", {taken}, {{"shape", editor.shape(sum.outputs[0])}}));
}

}  // namespace

graph::Graph sum_picks(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (const std::optional<int64_t> axis = axis_picked(editor, node)) sum_instead(editor, node, *axis);
    if (node.op == "reduce_sum") take_instead(editor, node);
  });
  return editor.finish();
}

}  // namespace tw::transform
