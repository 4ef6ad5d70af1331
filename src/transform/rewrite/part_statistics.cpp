// The mean and the variance of rows by two sums that one kernel adds, of x less the first element f of its row: mean =
// f + E[x - f] and variance = E[(x - f)^2] - E[x - f]^2 (shifted data; Chan, Golub and LeVeque 1983, "Algorithms for
// computing the sample variance"). Where f is one element like the others the difference loses nothing; where f alone
// differs from n - 1 equal ones, the variance is n roundings off. Behind mixed precision, which has x in f32 here:
// squares of 16-bit floats would leave their range.
#include "ops/reduce_te.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

void rewrite(Editor& editor, const Node& node) {
  const ValueId x = node.inputs[0];
  const TensorType type = editor.type(x);
  if (type.elements() == 0 || type.type.is_half()) return;
  const auto emit = [&](std::string op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return editor.emit(node, std::move(op), std::move(inputs), std::move(attrs));
  };
  const auto number = [&](const char* name, double value) {
    return editor.add_constant(node.name + name, {type.type, {}}, scalar_bytes(type.type, value));
  };
  // In the shape of the results: what follows a reshape is no part of either sum's kernel, so that both may be one.
  const auto shaped = [&](ValueId id) {
    const Shape& shape = editor.shape(node.outputs[0]);
    return editor.shape(id) == shape ? id : emit("reshape", {id}, {{"shape", shape}});
  };
  const Ints axes = ops::reduced_axes(graph::make_call(editor.graph(), node), type.shape.size());
  const Shape kept = ops::kept_shape(type.shape, axes);
  // A part of what is stored: that x is converted is nobody's matter but of who reads it.
  const Node* conversion = editor.producer(x, "cast");
  const ValueId stored = conversion == nullptr ? x : conversion->inputs[0];
  ValueId first = editor.emit_slice(node.name, stored, Ints(kept.size(), 0), kept);
  if (stored != x) first = emit("cast", {first}, {{"to", to_string(type.type)}});
  const ValueId off = emit("sub", {x, first});
  Attrs attrs = node.attrs;
  attrs["keepdims"] = int64_t{1};
  const ValueId sum = shaped(emit("reduce_sum", {off}, attrs)),
                squares = shaped(emit("reduce_sum_square", {off}, attrs));
  const double rows = static_cast<double>(num_elements(kept)), elements = static_cast<double>(type.elements());
  const ValueId share = number(".share", rows / elements), zero = number(".zero", 0);
  editor.replace(node.outputs[0], emit("add", {shaped(first), emit("mul", {sum, share})}));
  const ValueId rest = emit("sub", {squares, emit("mul", {emit("mul", {sum, sum}), share})});
  editor.replace(node.outputs[1], emit("mul", {emit("max", {rest, zero}), share}));
}

}  // namespace

graph::Graph part_statistics(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op == "mean_variance") rewrite(editor, node);
  });
  return editor.finish();
}

}  // namespace tw::transform
