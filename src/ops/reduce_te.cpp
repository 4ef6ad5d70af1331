#include "ops/reduce_te.h"

namespace tw::ops {

Shape kept_shape(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape result = shape;
  for (int64_t axis : axes) result[axis] = 1;
  return result;
}

Shape dropped_shape(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!std::ranges::binary_search(axes, static_cast<int64_t>(d))) result.push_back(shape[d]);
  }
  return result;
}

int64_t reduced_count(const Shape& shape, const std::vector<int64_t>& axes) {
  return num_elements(mapped(axes, [&](int64_t axis) { return shape[axis]; }));
}

Shape Reduction::out_shape() const {
  return keep == KeepDims::kYes ? kept_shape(shape, axes) : dropped_shape(shape, axes);
}

Shape Reduction::reduce_shape() const {
  return mapped(axes, [&](int64_t axis) { return shape[axis]; });
}

Exprs Reduction::indices(const Exprs& i, const Exprs& r) const {
  Exprs at;
  size_t next_kept = 0;
  size_t next_reduced = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::ranges::binary_search(axes, static_cast<int64_t>(d));
    at.push_back(reduced ? r[next_reduced++] : i[keep == KeepDims::kYes ? d : next_kept]);
    if (!reduced) ++next_kept;
  }
  return at;
}

Reduction line_of(const OpCall& call) { return {call.inputs[0].shape, {axis_of(call, -1)}, KeepDims::kYes}; }

te::Tensor reduce_axes(te::Builder& builder, const std::string& name, const Reduction& reduction, te::CombinerKind kind,
                       const std::function<Expr(const Exprs& at)>& body) {
  if (reduction.axes.empty()) {
    return builder.compute(name, reduction.out_shape(), [&](const Exprs& i) { return body(reduction.indices(i, {})); });
  }
  return builder.reduce(name, reduction.out_shape(), reduction.reduce_shape(), kind,
                        [&](const Exprs& i, const Exprs& r) { return body(reduction.indices(i, r)); });
}

te::Combiner extreme_index_combiner(DataType type, Extreme extreme, Tie tie) {
  const te::CombinerKind kind = extreme == Extreme::kMax ? te::CombinerKind::kMax : te::CombinerKind::kMin;
  const Expr a = var("a_value", type), b = var("b_value", type);
  const Expr i = var("a_index"), j = var("b_index");
  Expr better = extreme == Extreme::kMax ? a < b : b < a;
  Expr equal = a == b;
  if (type.is_float()) {
    better = better || (b != b && a == a);
    equal = equal || (a != a && b != b);
  }
  const Expr take = better || (equal && (tie == Tie::kFirst ? j < i : i < j));
  te::Combiner combiner;
  combiner.kind = te::CombinerKind::kTuple;
  // The identity's index loses every tie.
  combiner.identity = {te::identity_of(kind, type), int_imm(tie == Tie::kFirst ? INT64_MAX : -1)};
  combiner.lhs = {"a_value", "a_index"};
  combiner.rhs = {"b_value", "b_index"};
  combiner.result = {select(take, b, a), select(take, j, i)};
  return combiner;
}

}  // namespace tw::ops
