// Reductions over axes. f16 and bf16 are accumulated in f32; integers in their own type.
//
// op                                            inputs  attributes
// reduce_sum reduce_mean reduce_max reduce_min
// reduce_prod reduce_l1 reduce_l2 reduce_log_sum
// reduce_log_sum_exp reduce_sum_square          x       axes (ints; default all; empty list: none), keepdims (int, 1)
// Without elements: sum 0, prod 1, max and min the lowest and highest value (-inf and inf), mean NaN (integers: 0).
// max and min of bool are "any" and "all"; l2, log_sum and log_sum_exp of integers are computed in f32 and truncated.
//
// mean_variance(x): over axes the mean, and the mean of (x - mean)^2. Floats; attributes axes, keepdims.
//
// arg_max, arg_min: index (i64) of the largest or smallest element along an axis.
//   attributes: axis (int, 0), keepdims (int, 1), select_last_index (int, 0: the first of equal elements)
// A NaN counts as larger (arg_max) or smaller (arg_min) than everything, as in numpy. The axis must not be empty.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/families.h"
#include "ops/reduce_te.h"
#include "ops/rows.h"

namespace tw::ops {
namespace {

using te::CombinerKind;

// y = post(combine over x of pre(x)); count is the number of elements that meet in y.
struct Row {
  std::string_view name;
  CombinerKind kind;
  Expr (*pre)(const Expr& x);
  Expr (*post)(const Expr& y, int64_t count);  // null: nothing to do
  bool through_float;                          // integers are converted to f32 for it
  double (*fold)(double y, double x);          // reference
  double (*finish)(double y, int64_t count);   // null: nothing to do
};

Expr self(const Expr& x) { return x; }
Expr absolute(const Expr& x) { return x.type().is_unsigned_int() ? x : unary(Op::kAbs, x); }
Expr square(const Expr& x) { return x * x; }
double add(double y, double x) { return y + x; }

Expr te_mean(const Expr& y, int64_t count) {
  if (count == 0 && !y.type().is_float()) return imm(y.type(), 0);
  return y / imm(y.type(), static_cast<double>(count));
}

// clang-format off
const Row kRows[] = {
    {"reduce_sum", CombinerKind::kSum, self, nullptr, false, add, nullptr},
    {"reduce_mean", CombinerKind::kSum, self, te_mean, false, add, [](double y, int64_t count) { return y / static_cast<double>(count); }},
    {"reduce_prod", CombinerKind::kProd, self, nullptr, false, [](double y, double x) { return y * x; }, nullptr},
    {"reduce_max", CombinerKind::kMax, self, nullptr, false, [](double y, double x) { return x > y || std::isnan(x) ? x : y; }, nullptr},
    {"reduce_min", CombinerKind::kMin, self, nullptr, false, [](double y, double x) { return x < y || std::isnan(x) ? x : y; }, nullptr},
    {"reduce_l1", CombinerKind::kSum, absolute, nullptr, false, [](double y, double x) { return y + std::fabs(x); }, nullptr},
    {"reduce_sum_square", CombinerKind::kSum, square, nullptr, false, [](double y, double x) { return y + x * x; }, nullptr},
    {"reduce_l2", CombinerKind::kSum, square, [](const Expr& y, int64_t) { return call("sqrt", {y}); }, true,
     [](double y, double x) { return y + x * x; }, [](double y, int64_t) { return std::sqrt(y); }},
    {"reduce_log_sum", CombinerKind::kSum, self, [](const Expr& y, int64_t) { return call("log", {y}); }, true,
     add, [](double y, int64_t) { return std::log(y); }},
};
// clang-format on

const Row& row_of(const OpCall& call) { return row_in(kRows, call); }

KeepDims keep_of(const OpCall& call) {
  return call.node.int_attr_or("keepdims", 1) != 0 ? KeepDims::kYes : KeepDims::kNo;
}

Reduction reduction_of(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  return {shape, reduced_axes(call, shape.size()), keep_of(call)};
}

Types infer(const OpCall& call) {
  const DataType type = call.inputs[0].type;
  const bool extreme = call.node.op == "reduce_max" || call.node.op == "reduce_min";
  require(call, !type.is_bool() || extreme, "the input is bool, expected a number");
  return {{type, reduction_of(call).out_shape()}};
}

Expr to_math(const Expr& x, bool through_float) {
  return through_float && !x.type().is_float() ? cast(DataType::f32(), x) : cast(math_type(x.type()), x);
}

Tensors te_reduce(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Row& row = row_of(call);
  const Reduction reduction = reduction_of(call);
  const te::Tensor& x = inputs[0];
  CombinerKind kind = row.kind;
  if (x.type.is_bool()) kind = kind == CombinerKind::kMax ? CombinerKind::kOr : CombinerKind::kAnd;
  const bool direct = row.post == nullptr && math_type(x.type) == x.type;
  const te::Tensor sum = reduce_axes(builder, tensor_name(call, direct ? "" : "acc"), reduction, kind,
                                     [&](const Exprs& at) { return row.pre(to_math(x(at), row.through_float)); });
  if (direct) return {sum};
  const int64_t count = reduced_count(x.shape, reduction.axes);
  return {builder.compute(tensor_name(call), sum.shape,
                          [&](const Exprs& i) { return cast(x.type, row.post ? row.post(sum(i), count) : sum(i)); })};
}

double start_of(CombinerKind kind) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return kind == CombinerKind::kProd ? 1 : kind == CombinerKind::kMax ? -kInf : kind == CombinerKind::kMin ? kInf : 0;
}

// Sums, products, squares and extremes of integers, exact and wrapped.
void int_reference(const OpCall& call, const RefTensor& x, RefTensor& y) {
  const Row& row = row_of(call);
  const Expr start = te::identity_of(x.type.type.is_bool() && row.kind == CombinerKind::kMax ? CombinerKind::kOr
                                     : x.type.type.is_bool()                                 ? CombinerKind::kAnd
                                                                                             : row.kind,
                                     x.type.type);
  std::fill(y.ints.begin(), y.ints.end(), start->value);
  const bool absolute_value = row.name == "reduce_l1";
  const bool squared = row.name == "reduce_sum_square";
  for_each_reduced(x.type.shape, reduction_of(call).axes, [&](int64_t out, int64_t in) {
    const auto element = static_cast<uint64_t>(x.ints[in]);
    const uint64_t value = squared ? element * element : absolute_value && x.ints[in] < 0 ? -element : element;
    y.ints[out] = combined(row.kind, x.type.type, y.ints[out], static_cast<int64_t>(value));
  });
  y.round_to_type();
  if (row.name == "reduce_mean") {
    const int64_t count = reduced_count(x.type.shape, reduction_of(call).axes);
    for (int64_t& total : y.ints) total = count == 0 ? 0 : total / count;
  }
}

void store(RefTensor& y, size_t i, double value) {
  if (y.is_float()) {
    y.floats[i] = value;
  } else {
    y.ints[i] = std::isfinite(value) ? graph::wrap_int(static_cast<int64_t>(value), y.type.type) : 0;
  }
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Row& row = row_of(call);
  const RefTensor& x = inputs[0];
  if (!x.is_float() && !row.through_float) return int_reference(call, x, y);
  std::vector<double> sums(y.type.elements(), start_of(row.kind));
  const std::vector<int64_t> axes = reduction_of(call).axes;
  for_each_reduced(x.type.shape, axes, [&](int64_t out, int64_t in) {
    if (!std::isnan(sums[out])) sums[out] = row.fold(sums[out], x.at(in));
  });
  const int64_t count = reduced_count(x.type.shape, axes);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double value = row.finish ? row.finish(sums[i], count) : sums[i];
    store(y, i, value);
  }
}

// log(sum(exp(x))) by way of the largest element, so that nothing overflows: m + log(sum(exp(x - m))).
Tensors te_log_sum_exp(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction = reduction_of(call);
  const auto element = [&](const Exprs& at) { return to_math(x(at), true); };
  const te::Tensor largest = reduce_axes(builder, tensor_name(call, "max"), reduction, CombinerKind::kMax, element);
  // Where all elements are -inf (or there are none) the shift is 0: -inf - -inf is no number. Same for +inf.
  const te::Tensor shift = builder.compute(tensor_name(call, "shift"), largest.shape, [&](const Exprs& i) {
    const Expr m = largest(i);
    return select(unary(Op::kAbs, m) == imm(m.type(), std::numeric_limits<double>::infinity()), imm(m.type(), 0), m);
  });
  const auto sum_body = [&](const Exprs& i, const Exprs& r) {
    return tw::call("exp", {element(reduction.indices(i, r)) - shift(i)});
  };
  const te::Tensor sum =
      reduction.axes.empty()
          ? builder.compute(tensor_name(call, "sum"), shift.shape, [&](const Exprs& i) { return sum_body(i, {}); })
          : builder.reduce(tensor_name(call, "sum"), shift.shape, reduction.reduce_shape(), CombinerKind::kSum,
                           sum_body);
  return {builder.compute(tensor_name(call), sum.shape,
                          [&](const Exprs& i) { return cast(x.type, tw::call("log", {sum(i)}) + shift(i)); })};
}

void ref_log_sum_exp(const OpCall& call, Refs inputs, RefTensor& y) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const RefTensor& x = inputs[0];
  const std::vector<int64_t> axes = reduction_of(call).axes;
  std::vector<double> largest(y.type.elements(), -kInf);
  for_each_reduced(x.type.shape, axes,
                   [&](int64_t out, int64_t in) { largest[out] = std::fmax(largest[out], x.at(in)); });
  for (double& m : largest) m = std::isinf(m) ? 0 : m;
  std::vector<double> sums(largest.size(), 0);
  for_each_reduced(x.type.shape, axes,
                   [&](int64_t out, int64_t in) { sums[out] += std::exp(x.at(in) - largest[out]); });
  for (size_t i = 0; i < sums.size(); ++i) {
    const double value = std::log(sums[i]) + largest[i];
    store(y, i, value);
  }
}

// ---- Mean and variance.

Types infer_mean_variance(const OpCall& call) {
  require_float(call, 0);
  return Types(2, infer(call)[0]);
}

Tensors te_mean_variance(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction = reduction_of(call);
  const Reduction kept{reduction.shape, reduction.axes, KeepDims::kYes};
  const int64_t count = reduced_count(x.shape, reduction.axes);
  const auto mean_of = [&](const std::string& name, const std::function<Expr(const Exprs&)>& body) {
    const te::Tensor sum = reduce_axes(builder, tensor_name(call, name + "sum"), kept, CombinerKind::kSum, body);
    return builder.compute(tensor_name(call, name + "mean"), sum.shape,
                           [&](const Exprs& i) { return te_mean(sum(i), count); });
  };
  const auto element = [&](const Exprs& at) { return to_math(x(at), false); };
  const te::Tensor mean = mean_of("", element);
  const te::Tensor variance = mean_of("square_", [&](const Exprs& at) {
    Exprs own = at;
    for (const int64_t axis : kept.axes) own[axis] = Expr(0);
    return square(element(at) - mean(own));
  });
  const auto result = [&](const std::string& name, const te::Tensor& from) {
    return builder.compute(name, reduction.out_shape(), [&](const Exprs& i) {
      Exprs own = reduction.indices(i, Exprs(reduction.axes.size(), Expr(0)));
      return cast(x.type, from(own));
    });
  };
  return {result(tensor_name(call), mean), result(tensor_name(call, "variance"), variance)};
}

std::vector<RefTensor> ref_mean_variance(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const std::vector<int64_t> axes = reduction_of(call).axes;
  const auto count = static_cast<double>(reduced_count(x.type.shape, axes));
  std::vector<RefTensor> y = mapped(infer_mean_variance(call), RefTensor::zeros);
  for_each_reduced(x.type.shape, axes, [&](int64_t out, int64_t in) { y[0].floats[out] += x.floats[in]; });
  for (double& sum : y[0].floats) sum /= count;
  for_each_reduced(x.type.shape, axes, [&](int64_t out, int64_t in) {
    const double centred = x.floats[in] - y[0].floats[out];
    y[1].floats[out] += centred * centred;
  });
  for (double& sum : y[1].floats) sum /= count;
  return y;
}

// ---- Indices of extremes.

bool wants_max(const OpCall& call) { return call.node.op == "arg_max"; }
bool wants_last(const OpCall& call) { return call.node.int_attr_or("select_last_index", 0) != 0; }

Reduction arg_reduction_of(const OpCall& call) { return {call.inputs[0].shape, {axis_of(call, 0)}, keep_of(call)}; }

Types infer_arg(const OpCall& call) {
  const Reduction reduction = arg_reduction_of(call);
  require(call, reduction.shape[reduction.axes[0]] > 0, "axis {} of {} has no elements", reduction.axes[0],
          to_string(call.inputs[0]));
  require(call, !call.inputs[0].type.is_bool(), "the input is bool, expected a number");
  return {{DataType::i64(), reduction.out_shape()}};
}

Tensors te_arg(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction = arg_reduction_of(call);
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

void ref_arg(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const int64_t axis = arg_reduction_of(call).axes[0];
  std::vector<int64_t> best(y.type.elements(), -1);
  const int64_t stride = row_major_strides(x.type.shape)[axis];
  const int64_t extent = x.type.shape[axis];
  for_each_reduced(x.type.shape, {axis}, [&](int64_t out, int64_t in) {
    if (best[out] < 0 || beats(x, in, best[out], call)) best[out] = in;
  });
  for (size_t k = 0; k < best.size(); ++k) y.ints[k] = best[k] / stride % extent;
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  std::vector<OpDef> rows;
  for (const Row& row : kRows)
    rows.push_back({row.name, OpClass::kReduction, infer, te_reduce, filled<infer, reference>});
  rows.push_back({"reduce_log_sum_exp", OpClass::kReduction, infer, te_log_sum_exp, filled<infer, ref_log_sum_exp>});
  rows.push_back({"mean_variance", OpClass::kReduction, infer_mean_variance, te_mean_variance, ref_mean_variance});
  for (std::string_view name : {"arg_max", "arg_min"})
    rows.push_back({name, OpClass::kReduction, infer_arg, te_arg, filled<infer_arg, ref_arg>});
  return rows;
}

}  // namespace tw::ops
