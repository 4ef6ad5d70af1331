// arg_max, arg_min: index (i64) of the largest or smallest element along an axis.
//   attributes: axis (int, 0), keepdims (int, 1), select_last_index (int, 0: the first of equal elements)
// A NaN counts as larger (arg_max) or smaller (arg_min) than everything, as in numpy. The axis must not be empty.
#include <cmath>

#include "ops/families.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

bool wants_max(const OpCall& call) { return call.node.op == "arg_max"; }
bool wants_last(const OpCall& call) { return call.node.int_attr_or("select_last_index", 0) != 0; }

Reduction reduction_of(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  return {shape,
          {normalize_axis(call, call.node.int_attr_or("axis", 0), shape.size())},
          call.node.int_attr_or("keepdims", 1) != 0 ? KeepDims::kYes : KeepDims::kNo};
}

Types infer(const OpCall& call) {
  const Reduction reduction = reduction_of(call);
  require(call, reduction.shape[reduction.axes[0]] > 0, "axis {} of {} has no elements", reduction.axes[0],
          to_string(call.inputs[0]));
  require(call, !call.inputs[0].type.is_bool(), "the input is bool, expected a number");
  return {{DataType::i64(), reduction.out_shape()}};
}

Tensors te_arg(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction = reduction_of(call);
  const te::Combiner combiner = extreme_index_combiner(
      math_type(x.type), wants_max(call) ? Extreme::kMax : Extreme::kMin, wants_last(call) ? Tie::kLast : Tie::kFirst);
  return {builder.reduce_tuple({tensor_name(call, "value"), tensor_name(call)}, reduction.out_shape(),
                               reduction.reduce_shape(), combiner, [&](const Exprs& i, const Exprs& r) -> Exprs {
                                 return {read(x, reduction.indices(i, r)), r[0]};
                               })[1]};
}

// Whether x[a] beats x[b], where a comes after b.
bool beats(const RefTensor& x, int64_t a, int64_t b, const OpCall& call) {
  const bool last = wants_last(call);
  if (x.is_float()) {
    const double p = x.floats[a], q = x.floats[b];
    if (std::isnan(p) || std::isnan(q)) return std::isnan(p) && (last || !std::isnan(q));
    return p == q ? last : (p > q) == wants_max(call);
  }
  const int64_t flip = x.type.type.scalar() == ScalarType::kU64 ? INT64_MIN : 0;  // orders u64 bits as numbers
  const int64_t p = x.ints[a] ^ flip, q = x.ints[b] ^ flip;
  return p == q ? last : (p > q) == wants_max(call);
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const int64_t axis = reduction_of(call).axes[0];
  std::vector<int64_t> best(y.type.elements(), -1);
  const int64_t stride = row_major_strides(x.type.shape)[axis];
  const int64_t extent = x.type.shape[axis];
  for_each_reduced(x.type.shape, {axis}, [&](int64_t out, int64_t in) {
    if (best[out] < 0 || beats(x, in, best[out], call)) best[out] = in;
  });
  for (size_t k = 0; k < best.size(); ++k) y.ints[k] = best[k] / stride % extent;
}

}  // namespace

std::vector<OpDef> arg_reduce_ops() {
  return {{"arg_max", OpClass::kReduction, infer, te_arg, filled<infer, reference>},
          {"arg_min", OpClass::kReduction, infer, te_arg, filled<infer, reference>}};
}

}  // namespace tw::ops
