// Along one axis (attribute axis, int, default -1), float input:
//   softmax      exp(x - m) / sum(exp(x - m)), m the largest element; with attribute outputs = 3 also m and
//                1 / sum(exp(x - m)), of x's shape without the axis, in f32 for f16 and bf16;
//                of the latter 16 bits are right then
//   log_softmax  x - m - log(sum(exp(x - m)))
//   hardmax      1 at the first largest element, else 0
// (Before ONNX opset 13 these flatten to two dimensions: import reshapes.)
#include <cmath>
#include <limits>

#include "expr/elementary.h"
#include "ops/families.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

using te::CombinerKind;

int64_t outputs_of(const OpCall& call) { return call.node.int_attr_or("outputs", 1); }

Types infer(const OpCall& call) {
  require_float(call, 0);
  const TensorType& x = call.inputs[0];
  const int64_t outputs = outputs_of(call);
  require(call, outputs == 1 || (outputs == 3 && call.node.op == "softmax"), "{} outputs", outputs);
  Types types{x};
  types.resize(outputs, {math_type(x.type), dropped_shape(x.shape, line_of(call).axes)});
  return types;
}

Tensors te_softmax(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  Reduction reduction = line_of(call);
  if (outputs_of(call) > 1) reduction.keep = KeepDims::kNo;
  const Shape kept = reduction.out_shape();
  const auto of_its_line = [&](Exprs i) {
    if (reduction.keep == KeepDims::kYes) return broadcast_indices(i, kept);
    i.erase(i.begin() + reduction.axes[0]);
    return i;
  };
  const te::Tensor largest = reduce_axes(builder, tensor_name(call, "max"), reduction, CombinerKind::kMax,
                                         [&](const Exprs& at) { return read(x, at); });
  const te::Tensor power = builder.compute(tensor_name(call, "exp"), x.shape, [&](const Exprs& i) {
    return tw::call("exp", {read(x, i) - largest(of_its_line(i))});
  });
  const te::Tensor sum = reduce_axes(builder, tensor_name(call, "sum"), reduction, CombinerKind::kSum,
                                     [&](const Exprs& at) { return power(at); });
  const bool log = call.node.op == "log_softmax";
  // One division, or one logarithm, a line.
  const te::Tensor of_line = builder.compute(tensor_name(call, log ? "log_sum" : "scale"), kept, [&](const Exprs& i) {
    const Expr factor = log ? tw::call("log", {sum(i)}) : imm(sum.type, 1) / sum(i);
    return outputs_of(call) > 1 && x.type.is_half() ? tw::call(std::string(kRough), {factor}) : factor;
  });
  Tensors all{builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Exprs at = of_its_line(i);
    if (!log) return cast(x.type, power(i) * of_line(at));
    return cast(x.type, read(x, i) - largest(at) - of_line(at));
  })};
  if (outputs_of(call) > 1) append(all, Tensors{largest, of_line});
  return all;
}

Tensors te_hardmax(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction = line_of(call);
  const int64_t axis = reduction.axes[0];
  const te::Tensor index = builder.reduce_tuple({tensor_name(call, "max"), tensor_name(call, "index")},
                                                reduction.out_shape(), reduction.reduce_shape(),
                                                extreme_index_combiner(math_type(x.type), Extreme::kMax, Tie::kFirst),
                                                [&](const Exprs& i, const Exprs& r) -> Exprs {
                                                  return {read(x, reduction.indices(i, r)), r[0]};
                                                })[1];
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    return select(index(broadcast_indices(i, reduction.out_shape())) == i[axis], imm(x.type, 1), imm(x.type, 0));
  })};
}

// One line along the axis, gathered, transformed, put back.
template <typename Transform>
void along_axis(const OpCall& call, const RefTensor& x, RefTensor& y, const Transform& transform) {
  const int64_t axis = line_of(call).axes[0];
  const int64_t extent = x.type.shape[axis];
  std::vector<double> line(extent);
  for_each_line(x.type.shape, axis, [&](int64_t start, int64_t stride) {
    for (int64_t k = 0; k < extent; ++k) line[k] = x.floats[start + k * stride];
    transform(line);
    for (int64_t k = 0; k < extent; ++k) y.floats[start + k * stride] = line[k];
  });
}

double largest_of(const std::vector<double>& line) {
  double m = -std::numeric_limits<double>::infinity();
  for (double x : line) m = x > m || std::isnan(x) ? x : m;
  return m;
}

std::vector<RefTensor> ref_softmax(const OpCall& call, Refs inputs) {
  std::vector<RefTensor> results = mapped(infer(call), RefTensor::zeros);
  size_t number = 0;  // of the line
  along_axis(call, inputs[0], results[0], [&](std::vector<double>& line) {
    const double m = largest_of(line);
    double sum = 0;
    for (double x : line) sum += std::exp(x - m);
    for (double& x : line) x = call.node.op == "softmax" ? std::exp(x - m) / sum : x - m - std::log(sum);
    if (results.size() > 1) results[1].floats[number] = m, results[2].floats[number] = 1 / sum;
    ++number;
  });
  return results;
}

void ref_hardmax(const OpCall& call, Refs inputs, RefTensor& y) {
  along_axis(call, inputs[0], y, [](std::vector<double>& line) {
    size_t best = 0;
    for (size_t k = 1; k < line.size(); ++k) {
      if (!std::isnan(line[best]) && (line[k] > line[best] || std::isnan(line[k]))) best = k;
    }
    for (size_t k = 0; k < line.size(); ++k) line[k] = k == best ? 1 : 0;
  });
}

}  // namespace

std::vector<OpDef> softmax_ops() {
  return {{"softmax", OpClass::kReduction, infer, te_softmax, ref_softmax},
          {"log_softmax", OpClass::kReduction, infer, te_softmax, ref_softmax},
          {"hardmax", OpClass::kReduction, infer, te_hardmax, filled<infer, ref_hardmax>}};
}

}  // namespace tw::ops
