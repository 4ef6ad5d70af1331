// update_slice(x, update, position)   attribute axis (0): x with the elements of `update`, which has x's shape but for
// the axis, in the place of its own from `position` on:
//   y[a.., i, b..] = update[a.., i - p, b..] where p <= i < p + extent of update, else x[a.., i, b..]
// `position` is i32 or i64, of one element, or with axis > 0 of one for each element of x's first axis: p is that of
// position[a0]. What does not fit into x is moved to where it does: p is clamped to [0, extent of x - extent of
// update].
#include <algorithm>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

Types infer(const OpCall& call) {
  require_same_type(call, 0, 1);
  require_indices(call, 2);
  const Shape &x = call.inputs[0].shape, &update = call.inputs[1].shape;
  const int64_t axis = axis_of(call, 0);
  bool fits = update.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d)
    fits = static_cast<int64_t>(d) == axis ? update[d] <= x[d] : update[d] == x[d];
  require(call, fits, "an update of {} does not fit {} along axis {}", to_string(call.inputs[1]),
          to_string(call.inputs[0]), axis);
  const int64_t positions = call.inputs[2].elements();
  require(call, positions == 1 || (axis > 0 && positions == x[0] && call.inputs[2].shape.size() == 1),
          "position {} is neither one number nor one for each of {}", to_string(call.inputs[2]), x[0]);
  return {call.inputs[0]};
}

Tensors te(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const int64_t axis = axis_of(call, 0);
  const int64_t extent = inputs[0].shape[axis], rows = inputs[1].shape[axis];
  return {builder.compute(tensor_name(call), inputs[0].shape, [&](const Exprs& i) {
    if (rows == 0 || num_elements(inputs[1].shape) == 0) return inputs[0](i);
    const bool one = num_elements(inputs[2].shape) == 1;
    const Exprs which = one ? Exprs(inputs[2].shape.size(), Expr(0)) : Exprs{i[0]};
    const Expr p = max(min(cast(DataType::i64(), inputs[2](which)), Expr(extent - rows)), Expr(0));
    Exprs at = i;
    const Expr row = i[axis] - p;
    at[axis] = max(min(row, Expr(rows - 1)), Expr(0));
    return select(row >= Expr(0) && row < Expr(rows), inputs[1](at), inputs[0](i));
  })};
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  RefTensor y = inputs[0];
  const int64_t axis = axis_of(call, 0);
  const Shape &x = y.type.shape, &update = inputs[1].type.shape;
  const Shape strides = row_major_strides(x);
  int64_t from = 0;
  for_each_index(update, [&](std::vector<int64_t> index) {
    const int64_t p = inputs[2].ints[inputs[2].ints.size() == 1 ? 0 : index[0]];
    index[axis] += std::clamp<int64_t>(p, 0, x[axis] - update[axis]);
    copy_element(y, offset_of(index, strides), inputs[1], from++);
  });
  return {std::move(y)};
}

}  // namespace

std::vector<OpDef> update_ops() { return {{"update_slice", OpClass::kInjective, infer, te, reference, {3, 3}}}; }

}  // namespace tw::ops
