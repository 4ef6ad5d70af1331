// where(condition bool, a, b) = a[i] where condition[i], else b[i]; all three are broadcast. No attributes.
// band(x [.., n, m]): y[.., i, j] = x[.., i, j] where lower <= j - i <= upper, else fill, of any type: what a causal
// mask or a window of neighbours leaves of scores, a triangle of a matrix. Attributes: lower (no bound), upper (no
// bound), fill (0). Source: BLAS, "band matrix".
// pick(index, x), both broadcast to y: y[i] = x[i] where i[axis] is the index, else 0: of a row the one element that a
// loss takes, or its gradient. Attributes: axis, extent (of y along it). An index beyond the extent picks nothing; one
// below zero does not count from the end.
#include <limits>

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

struct Band {
  int64_t lower, upper;
  double fill;
};

Band band_of(const OpCall& call) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  return {call.node.int_attr_or("lower", -kNone), call.node.int_attr_or("upper", kNone),
          call.node.float_attr_or("fill", 0)};
}

Types infer_band(const OpCall& call) {
  require(call, call.inputs[0].shape.size() >= 2, "{} is not a matrix", to_string(call.inputs[0]));
  return {call.inputs[0]};
}

Tensors te_band(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Band band = band_of(call);
  const te::Tensor& x = inputs[0];
  const size_t rank = x.shape.size();
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    Exprs conditions;
    const Expr &row = i[rank - 2], &column = i[rank - 1];
    if (band.lower > -x.shape[rank - 2]) conditions.push_back(row + Expr(band.lower) <= column);
    if (band.upper < x.shape[rank - 1]) conditions.push_back(column <= row + Expr(band.upper));
    return select(all_of(conditions), x(i), imm(x.type, band.fill));
  })};
}

void reference_band(const OpCall& call, Refs inputs, RefTensor& y) {
  const Band band = band_of(call);
  const Shape& shape = y.type.shape;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  RefTensor fill = RefTensor::zeros({y.type.type, {1}});
  if (fill.is_float())
    fill.floats[0] = band.fill;
  else
    fill.ints[0] = static_cast<int64_t>(band.fill);
  for (int64_t e = 0; e < y.type.elements(); ++e) {
    const int64_t distance = e % columns - e / columns % rows;
    const bool inside = band.lower <= distance && distance <= band.upper;
    copy_element(y, e, inside ? inputs[0] : fill, inside ? e : 0);
  }
}

Types infer_pick(const OpCall& call) {
  const int64_t axis = call.node.int_attr("axis"), extent = call.node.int_attr("extent");
  Shape shape;
  require(call, broadcast_shapes(call.inputs[0].shape, call.inputs[1].shape, &shape) && call.inputs[0].type.is_int(),
          "the index {} and {} do not broadcast", to_string(call.inputs[0]), to_string(call.inputs[1]));
  require(call, axis >= 0 && axis < std::ssize(shape) && (shape[axis] == 1 || shape[axis] == extent) && extent > 0,
          "axis {} of {} with extent {}", axis, tw::to_string(shape), extent);
  shape[axis] = extent;
  return {{call.inputs[1].type, shape}};
}

Tensors te_pick(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return {builder.compute(tensor_name(call), infer_pick(call)[0].shape, [&](const Exprs& i) {
    const auto at = [&](size_t k) { return inputs[k](broadcast_indices(i, inputs[k].shape)); };
    return select(cast(DataType::i64(), at(0)) == i[call.node.int_attr("axis")], at(1), imm(inputs[1].type, 0));
  })};
}

void reference_pick(const OpCall& call, Refs inputs, RefTensor& y) {
  const int64_t axis = call.node.int_attr("axis");
  const Shape& shape = y.type.shape;
  const std::vector<int64_t> index = offsets(shape, broadcast_strides(inputs[0].type.shape, shape)),
                             x = offsets(shape, broadcast_strides(inputs[1].type.shape, shape));
  const int64_t step = row_major_strides(shape)[axis];
  const RefTensor zero = RefTensor::zeros({y.type.type, {1}});
  for (int64_t e = 0; e < y.type.elements(); ++e) {
    const bool is_it = inputs[0].ints[index[e]] == e / step % shape[axis];
    copy_element(y, e, is_it ? inputs[1] : zero, is_it ? x[e] : 0);
  }
}

}  // namespace

std::vector<OpDef> where_ops() {
  return {{"where", OpClass::kElementwise, infer, te_where, filled<infer, reference>, {3, 3}},
          {"band", OpClass::kElementwise, infer_band, te_band, filled<infer_band, reference_band>, {1, 1}},
          {"pick", OpClass::kElementwise, infer_pick, te_pick, filled<infer_pick, reference_pick>, {2, 2}}};
}

}  // namespace tw::ops
