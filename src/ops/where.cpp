// where(condition bool, a, b) = a[i] where condition[i], else b[i]; all three are broadcast. No attributes.
#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

Types infer(const OpCall& call) {
  require_same_type(call, 1, 2);
  require(call, call.inputs[0].type.is_bool(), "the condition is {}, expected bool", to_string(call.inputs[0]));
  Shape shape = call.inputs[0].shape;
  for (size_t k : {1, 2}) {
    const Shape before = shape;
    require(call, broadcast_shapes(before, call.inputs[k].shape, &shape), "the shapes {} and {} do not broadcast",
            to_string(before), to_string(call.inputs[k].shape));
  }
  return {{call.inputs[1].type, shape}};
}

Tensors te_where(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return {builder.compute(tensor_name(call), infer(call)[0].shape, [&](const Exprs& i) {
    const auto at = [&](size_t k) { return inputs[k](broadcast_indices(i, inputs[k].shape)); };
    return select(at(0), at(1), at(2));
  })};
}

void reference(const OpCall&, Refs inputs, RefTensor& y) {
  std::vector<int64_t> at[3];
  for (size_t k = 0; k < 3; ++k) at[k] = offsets(y.type.shape, broadcast_strides(inputs[k].type.shape, y.type.shape));
  for (int64_t i = 0; i < y.type.elements(); ++i) {
    const size_t k = inputs[0].ints[at[0][i]] != 0 ? 1 : 2;
    copy_element(y, i, inputs[k], at[k][i]);
  }
}

}  // namespace

std::vector<OpDef> where_ops() {
  return {{"where", OpClass::kElementwise, infer, te_where, filled<infer, reference>, {3, 3}}};
}

}  // namespace tw::ops
