// Normalizations by a norm or a neighbourhood, float.
//   lrn      attributes size (int), alpha (1e-4), beta (0.75), bias (1): y = x / (bias + alpha / size * s)^beta, s the
//   sum of
//            x^2 over channels c - floor((size - 1) / 2) .. c + ceil((size - 1) / 2) that exist
//   lp_norm  attributes axis (-1), p (1 or 2, default 2): y = x / (sum |x|^p)^(1/p) along the axis; 0 where the norm is
//   0
#include <cmath>

#include "ops/families.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

using te::CombinerKind;

struct Lrn {
  int64_t size, before;
  double alpha, beta, bias;
};
Lrn lrn_of(const OpCall& call) {
  const auto attr = [&](const char* key, double fallback) {
    return call.node.float_attr_or(key, static_cast<float>(fallback));
  };
  const int64_t size = call.node.int_attr("size");
  require(call, size >= 1, "size {}", size);
  return {size, (size - 1) / 2, attr("alpha", 1e-4), attr("beta", 0.75), attr("bias", 1)};
}

Types infer_lrn(const OpCall& call) {
  require_float(call, 0);
  require(call, call.inputs[0].shape.size() >= 2, "the input is {}, expected at least two dimensions",
          to_string(call.inputs[0]));
  lrn_of(call);
  return {call.inputs[0]};
}

Tensors te_lrn(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Lrn lrn = lrn_of(call);
  Shape padded = x.shape;
  padded[1] += lrn.size - 1;
  const te::Tensor squares = builder.compute(tensor_name(call, "pad"), padded, [&](Exprs i) {
    i[1] = i[1] - Expr(lrn.before);
    const Expr within = inside(i[1], x.shape[1], -lrn.before, padded[1] - 1 - lrn.before);
    const Expr value = read(x, i);
    return select(within, value * value, imm(value.type(), 0));
  });
  const te::Tensor sum =
      builder.reduce(tensor_name(call, "sum"), x.shape, {lrn.size}, CombinerKind::kSum, [&](Exprs i, const Exprs& r) {
        i[1] = i[1] + r[0];
        return squares(i);
      });
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const auto number = [&](double value) { return imm(sum.type, value); };
    const Expr base = number(lrn.bias) + number(lrn.alpha / static_cast<double>(lrn.size)) * sum(i);
    return cast(x.type, read(x, i) / tw::call("pow", {base, number(lrn.beta)}));
  })};
}

void ref_lrn(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const Lrn lrn = lrn_of(call);
  const int64_t channels = x.type.shape[1];
  const int64_t area = row_major_strides(x.type.shape)[1];
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t c = i / area % channels;
    const int64_t first = std::max<int64_t>(0, c - lrn.before);
    const int64_t last = std::min(channels - 1, c - lrn.before + lrn.size - 1);
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) sum += std::pow(x.floats[i + (k - c) * area], 2);
    y.floats[i] = x.floats[i] / std::pow(lrn.bias + lrn.alpha / static_cast<double>(lrn.size) * sum, lrn.beta);
  }
}

int64_t norm_order(const OpCall& call) {
  const int64_t p = call.node.int_attr_or("p", 2);
  require(call, p == 1 || p == 2, "p is {}, expected 1 or 2", p);
  return p;
}

Types infer_lp(const OpCall& call) {
  require_float(call, 0);
  norm_order(call);
  line_of(call);
  return {call.inputs[0]};
}

Tensors te_lp(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const bool squared = norm_order(call) == 2;
  const te::Tensor sum =
      reduce_axes(builder, tensor_name(call, "sum"), line_of(call), CombinerKind::kSum, [&](const Exprs& at) {
        const Expr value = read(x, at);
        return squared ? value * value : unary(Op::kAbs, value);
      });
  const te::Tensor norm = builder.compute(tensor_name(call, "norm"), sum.shape, [&](const Exprs& i) {
    return squared ? tw::call("sqrt", {sum(i)}) : sum(i);
  });
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Expr divisor = norm(broadcast_indices(i, norm.shape));
    const Expr zero = imm(divisor.type(), 0);
    return cast(x.type, select(divisor == zero, zero, read(x, i) / divisor));
  })};
}

void ref_lp(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const double p = static_cast<double>(norm_order(call));
  const std::vector<int64_t> axes = line_of(call).axes;
  std::vector<double> norm(num_elements(kept_shape(x.type.shape, axes)), 0);
  for_each_reduced(x.type.shape, axes,
                   [&](int64_t out, int64_t in) { norm[out] += std::pow(std::fabs(x.floats[in]), p); });
  for (double& value : norm) value = std::pow(value, 1 / p);
  for_each_reduced(x.type.shape, axes,
                   [&](int64_t out, int64_t in) { y.floats[in] = norm[out] == 0 ? 0 : x.floats[in] / norm[out]; });
}

}  // namespace

std::vector<OpDef> local_normalization_ops() {
  return {{"lrn", OpClass::kReduction, infer_lrn, te_lrn, filled<infer_lrn, ref_lrn>},
          {"lp_norm", OpClass::kReduction, infer_lp, te_lp, filled<infer_lp, ref_lp>}};
}

}  // namespace tw::ops
