// top_k(x): the k first elements along an axis in descending order (largest 1) or ascending, and their indices (i64).
//   attributes axis (-1), k, largest (int, 1). Equal elements keep their order; a NaN is larger than all numbers.
// As a te: the rank of each element (how many stand before it), then the element of each rank.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

bool wants_largest(const OpCall& call) { return call.node.int_attr_or("largest", 1) != 0; }

Types infer(const OpCall& call) {
  TensorType y = call.inputs[0];
  require(call, !y.type.is_bool(), "the input is {}, expected numbers", to_string(y));
  const int64_t k = call.node.int_attr("k");
  int64_t& extent = y.shape[axis_of(call, -1)];
  require(call, k >= 0 && k <= extent, "k is {}, the axis has {} elements", k, extent);
  extent = k;
  return {y, {DataType::i64(), y.shape}};
}

// Whether a, at position p, stands before b, at position q.
Expr stands_before(const Expr& a, const Expr& p, const Expr& b, const Expr& q, bool largest) {
  Expr before = largest ? b < a : a < b;
  Expr equal = a == b;
  if (a.type().is_float()) {
    const Expr a_nan = a != a, b_nan = b != b;
    before = before || (largest ? a_nan && logical_not(b_nan) : b_nan && logical_not(a_nan));
    equal = equal || (a_nan && b_nan);
  }
  return before || (equal && p < q);
}

Tensors te_top_k(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const int64_t axis = axis_of(call, -1);
  const Shape out = infer(call)[0].shape;
  const Shape line{x.shape[axis]};
  const te::Tensor rank = builder.reduce(
      tensor_name(call, "rank"), x.shape, line, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
        Exprs other = i;
        other[axis] = r[0];
        return select(stands_before(read(x, other), r[0], read(x, i), i[axis], wants_largest(call)), Expr(1), Expr(0));
      });
  const te::Tensor index =
      builder.reduce(tensor_name(call), out, line, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
        Exprs other = i;
        other[axis] = r[0];
        return select(rank(other) == i[axis], r[0], Expr(0));
      });
  const te::Tensor value = builder.compute(tensor_name(call), out, [&](Exprs i) {
    i[axis] = index(i);
    return x(i);
  });
  return {value, index};
}

bool comes_first(const RefTensor& x, int64_t a, int64_t b, bool largest) {
  if (!x.is_float()) {
    const int64_t flip = x.type.type.scalar() == ScalarType::kU64 ? INT64_MIN : 0;  // orders u64 bits as numbers
    return largest ? (x.ints[a] ^ flip) > (x.ints[b] ^ flip) : (x.ints[a] ^ flip) < (x.ints[b] ^ flip);
  }
  const double p = x.floats[a], q = x.floats[b];
  if (std::isnan(p) || std::isnan(q)) return std::isnan(p) != std::isnan(q) && std::isnan(p) == largest;
  return largest ? p > q : p < q;
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const Types types = infer(call);
  const int64_t axis = axis_of(call, -1);
  const int64_t extent = x.type.shape[axis], k = types[0].shape[axis];
  const int64_t stride = row_major_strides(x.type.shape)[axis];
  std::vector<RefTensor> y{RefTensor::zeros(types[0]), RefTensor::zeros(types[1])};
  std::vector<int64_t> order(extent);
  for (int64_t start = 0; start < x.type.elements(); ++start) {
    if (start / stride % extent != 0) continue;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return comes_first(x, start + a * stride, start + b * stride, wants_largest(call));
    });
    const int64_t to = start / (stride * extent) * stride * k + start % stride;
    for (int64_t j = 0; j < k; ++j) {
      copy_element(y[0], to + j * stride, x, start + order[j] * stride);
      y[1].ints[to + j * stride] = order[j];
    }
  }
  return y;
}

}  // namespace

std::vector<OpDef> top_k_ops() { return {{"top_k", OpClass::kReduction, infer, te_top_k, reference}}; }

}  // namespace tw::ops
