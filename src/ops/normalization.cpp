// Normalizations, float; statistics are accumulated in f32. epsilon is a float attribute (default 1e-5).
//
// op             inputs                       attributes
// batch_norm     x, scale, bias, mean, var    epsilon. y = (x - mean[c]) * scale[c] / sqrt(var[c] + epsilon) + bias[c];
//                                             momentum (0.9), of which only training knows
// instance_norm  x, scale, bias               epsilon. Statistics of each (n, c) over the spatial axes
// group_norm     x, scale, bias               num_groups, epsilon. scale and bias of C, or of num_groups, elements
// layer_norm     x, scale, [bias]             axis (-1), epsilon, outputs (int, 1 to 3: y, mean, 1 / standard
// deviation).
//                                             Over the axes axis.. ; scale and bias broadcast to x
// rms_norm       x, scale                     axis (-1), epsilon. y = x / sqrt(mean(x^2) + epsilon) * scale
// mean_variance_norm  x                       axes (0, 2, 3). y = (x - mean) / (sqrt(var) + 1e-9)
// All of them are one computation: normalize over `axes` of x seen in shape `view`, then scale and shift.
#include <cmath>

#include "ops/families.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

constexpr double kVarianceEpsilon = 1e-9;  // of MeanVarianceNormalization's definition in ONNX

double epsilon_of(const OpCall& call) { return call.node.float_attr_or("epsilon", static_cast<float>(1e-5)); }

int64_t channels_of(const OpCall& call) {
  require(call, call.inputs[0].shape.size() >= 2, "the input is {}, expected at least two dimensions",
          to_string(call.inputs[0]));
  return call.inputs[0].shape[1];
}

// Input k holds one number for each channel (or group).
void require_vector(const OpCall& call, size_t k, int64_t extent) {
  require(call, call.inputs[k].shape == Shape{extent}, "input {} is {}, expected {} elements", k,
          to_string(call.inputs[k]), extent);
  require_float(call, k);
}

Types infer_channels(const OpCall& call) {
  require_float(call, 0);
  for (size_t k = 1; k < call.inputs.size(); ++k) require_vector(call, k, channels_of(call));
  return {call.inputs[0]};
}

Types infer_group(const OpCall& call) {
  require_float(call, 0);
  const int64_t groups = call.node.int_attr("num_groups");
  require(call, groups > 0 && channels_of(call) % groups == 0, "{} channels do not split into {} groups",
          channels_of(call), groups);
  const bool of_groups = call.inputs[1].shape == Shape{groups};
  for (size_t k : {1, 2}) require_vector(call, k, of_groups ? groups : channels_of(call));
  return {call.inputs[0]};
}

std::vector<int64_t> trailing_axes(const OpCall& call) {
  const auto rank = static_cast<int64_t>(call.inputs[0].shape.size());
  const int64_t first = axis_of(call, -1);
  return sequence(rank - first, first);
}

Types infer_trailing(const OpCall& call) {
  require_float(call, 0);
  const TensorType& x = call.inputs[0];
  for (size_t k = 1; k < call.inputs.size(); ++k) {
    Shape shape;
    if (!call.has(k)) continue;
    require_float(call, k);
    require(call, broadcast_shapes(call.inputs[k].shape, x.shape, &shape) && shape == x.shape,
            "input {} is {}, which does not broadcast to {}", k, to_string(call.inputs[k]), to_string(x));
  }
  const int64_t outputs = call.node.int_attr_or("outputs", 1);
  require(call, outputs >= 1 && outputs <= (call.node.op == "rms_norm" ? 1 : 3), "{} outputs", outputs);
  Types types{x};
  types.resize(outputs, {math_type(x.type), kept_shape(x.shape, trailing_axes(call))});
  return types;
}

Types infer_plain(const OpCall& call) {
  require_float(call, 0);
  reduced_axes(call, call.inputs[0].shape.size());
  return {call.inputs[0]};
}

// ---- te.

using Element = std::function<Expr(const Exprs& at)>;

// The mean of `element` over the axes of `reduction`: two tensors, called after their suffixes.
struct Suffixes {
  const char *sum, *mean;
};
te::Tensor average(const OpCall& call, te::Builder& builder, const Reduction& reduction, const Suffixes& suffixes,
                   const Element& element) {
  const double count = static_cast<double>(reduced_count(reduction.shape, reduction.axes));
  const te::Tensor sum =
      reduce_axes(builder, tensor_name(call, suffixes.sum), reduction, te::CombinerKind::kSum, element);
  return builder.compute(tensor_name(call, suffixes.mean), sum.shape,
                         [&](const Exprs& i) { return sum(i) / imm(sum.type, count); });
}

// (mean, variance) of x over the axes of `reduction`, read through `element`; two passes, as the definition says.
struct Statistics {
  te::Tensor mean, variance;
};
Statistics statistics(const OpCall& call, te::Builder& builder, const Reduction& reduction, const Element& element) {
  const te::Tensor mean = average(call, builder, reduction, {"sum", "mean"}, element);
  const te::Tensor variance = average(call, builder, reduction, {"squares", "var"}, [&](const Exprs& at) {
    const Expr centred = element(at) - mean(broadcast_indices(at, mean.shape));
    return centred * centred;
  });
  return {mean, variance};
}

te::Tensor inverse_deviation(const OpCall& call, te::Builder& builder, const te::Tensor& variance) {
  return builder.compute(tensor_name(call, "inv_std"), variance.shape, [&](const Exprs& i) {
    return imm(variance.type, 1) / tw::call("sqrt", {variance(i) + imm(variance.type, epsilon_of(call))});
  });
}

Tensors te_batch_norm(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const te::Tensor factor = builder.compute(tensor_name(call, "factor"), inputs[1].shape, [&](const Exprs& c) {
    const Expr variance = read(inputs[4], c);
    return cast(variance.type(), read(inputs[1], c)) /
           tw::call("sqrt", {variance + imm(variance.type(), epsilon_of(call))});
  });
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Expr value = read(x, i);
    const auto channel = [&](const te::Tensor& t) { return cast(value.type(), read(t, {i[1]})); };
    return cast(x.type, (value - channel(inputs[3])) * channel(factor) + channel(inputs[2]));
  })};
}

// Groups of channels: x seen as [N, G, C/G, spatial..], reduced over all but the first two.
Tensors te_group_norm(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const int64_t groups =
      call.node.op == "instance_norm" ? std::max<int64_t>(1, x.shape[1]) : call.node.int_attr("num_groups");
  const int64_t each = x.shape[1] / groups;
  Reduction reduction{joined(Shape{x.shape[0], groups, each}, std::span(x.shape).subspan(2)), {}, KeepDims::kYes};
  reduction.axes = sequence(reduction.shape.size() - 2, 2);
  // Element of x at (n, g, k, spatial..).
  const auto element = [&](const Exprs& at) {
    return read(x, joined(Exprs{at[0], at[1] * Expr(each) + at[2]}, std::span(at).subspan(3)));
  };
  const Statistics stats = statistics(call, builder, reduction, element);
  const te::Tensor inverse = inverse_deviation(call, builder, stats.variance);
  const bool of_groups = inputs[1].shape[0] != x.shape[1];
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Expr group = each <= 1 ? i[1] : floor_div(i[1], Expr(each));
    Exprs at(reduction.shape.size(), Expr(0));
    at[0] = i[0];
    at[1] = group;
    const auto channel = [&](const te::Tensor& t) { return cast(inverse.type, read(t, {of_groups ? group : i[1]})); };
    return cast(x.type, (read(x, i) - stats.mean(at)) * inverse(at) * channel(inputs[1]) + channel(inputs[2]));
  })};
}

Tensors te_layer_norm(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction{x.shape, trailing_axes(call), KeepDims::kYes};
  const Statistics stats = statistics(call, builder, reduction, [&](const Exprs& at) { return read(x, at); });
  const te::Tensor inverse = inverse_deviation(call, builder, stats.variance);
  const te::Tensor y = builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Exprs row = broadcast_indices(i, inverse.shape);
    const auto factor = [&](const te::Tensor& t) { return cast(inverse.type, read(t, broadcast_indices(i, t.shape))); };
    const Expr scaled = (read(x, i) - stats.mean(row)) * inverse(row) * factor(inputs[1]);
    return cast(x.type, call.has(2) ? scaled + factor(inputs[2]) : scaled);
  });
  Tensors all{y, stats.mean, inverse};
  all.resize(call.node.int_attr_or("outputs", 1));
  return all;
}

Tensors te_rms_norm(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction{x.shape, trailing_axes(call), KeepDims::kYes};
  const te::Tensor mean = average(call, builder, reduction, {"squares", "mean_square"}, [&](const Exprs& at) {
    const Expr value = read(x, at);
    return value * value;
  });
  const te::Tensor inverse = inverse_deviation(call, builder, mean);
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Expr scale = cast(inverse.type, read(inputs[1], broadcast_indices(i, inputs[1].shape)));
    return cast(x.type, read(x, i) * inverse(broadcast_indices(i, inverse.shape)) * scale);
  })};
}

std::vector<int64_t> variance_axes(const OpCall& call) {
  if (call.node.has_attr("axes")) return reduced_axes(call, call.inputs[0].shape.size());
  graph::Node node = call.node;
  node.attrs["axes"] = std::vector<int64_t>{0, 2, 3};
  return reduced_axes({.node = node, .inputs = call.inputs, .present = call.present}, call.inputs[0].shape.size());
}

Tensors te_mean_variance(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Reduction reduction{x.shape, variance_axes(call), KeepDims::kYes};
  const Statistics stats = statistics(call, builder, reduction, [&](const Exprs& at) { return read(x, at); });
  const te::Tensor deviation = builder.compute(tensor_name(call, "std"), stats.variance.shape, [&](const Exprs& i) {
    return tw::call("sqrt", {stats.variance(i)}) + imm(stats.variance.type, kVarianceEpsilon);
  });
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const Exprs at = broadcast_indices(i, deviation.shape);
    return cast(x.type, (read(x, i) - stats.mean(at)) / deviation(at));
  })};
}

// ---- References.

// To which cell, of how many, each element of x belongs, in order.
struct Cells {
  std::vector<int64_t> of;
  int64_t count;
  size_t size() const { return of.size(); }
  // The mean of value(i) over the elements i of each cell.
  template <typename Value>
  std::vector<double> mean(const Value& value) const {
    std::vector<double> means(count, 0);
    for (size_t i = 0; i < size(); ++i) means[of[i]] += value(i);
    for (double& m : means) m /= static_cast<double>(size()) / static_cast<double>(count);
    return means;
  }
};

// The cells of a reduction over `axes`.
Cells cells_of(const Shape& shape, const std::vector<int64_t>& axes) {
  Cells cells{std::vector<int64_t>(num_elements(shape)), num_elements(kept_shape(shape, axes))};
  for_each_reduced(shape, axes, [&](int64_t out, int64_t in) { cells.of[in] = out; });
  return cells;
}

// Of each cell.
struct Moments {
  Moments(const RefTensor& x, const Cells& cells)
      : mean(cells.mean([&](size_t i) { return x.floats[i]; })),
        variance(cells.mean([&](size_t i) { return std::pow(x.floats[i] - mean[cells.of[i]], 2); })) {}
  std::vector<double> mean, variance;
};

void ref_batch_norm(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const int64_t area = num_elements(Shape(x.type.shape.begin() + 2, x.type.shape.end()));
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t c = i / area % x.type.shape[1];
    const double deviation = std::sqrt(inputs[4].floats[c] + epsilon_of(call));
    y.floats[i] = (x.floats[i] - inputs[3].floats[c]) / deviation * inputs[1].floats[c] + inputs[2].floats[c];
  }
}

void ref_group_norm(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const int64_t channels = x.type.shape[1];
  const int64_t groups = call.node.op == "instance_norm" ? channels : call.node.int_attr("num_groups");
  const int64_t area = num_elements(Shape(x.type.shape.begin() + 2, x.type.shape.end()));
  Cells cells{std::vector<int64_t>(x.type.elements()), x.type.shape[0] * groups};
  for (size_t i = 0; i < cells.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / area;  // n * channels + c
    cells.of[i] = row / channels * groups + row % channels / (channels / groups);
  }
  const Moments m(x, cells);
  const bool of_groups = inputs[1].type.shape[0] != channels;
  for (size_t i = 0; i < cells.size(); ++i) {
    const int64_t c = of_groups ? cells.of[i] % groups : static_cast<int64_t>(i) / area % channels;
    const double normal = (x.floats[i] - m.mean[cells.of[i]]) / std::sqrt(m.variance[cells.of[i]] + epsilon_of(call));
    y.floats[i] = normal * inputs[1].floats[c] + inputs[2].floats[c];
  }
}

std::vector<RefTensor> ref_layer_norm(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const Cells cells = cells_of(x.type.shape, trailing_axes(call));
  const Moments m(x, cells);
  std::vector<RefTensor> results = mapped(infer_trailing(call), RefTensor::zeros);
  const std::vector<int64_t> at_scale = offsets(x.type.shape, broadcast_strides(inputs[1].type.shape, x.type.shape));
  std::vector<int64_t> at_bias(at_scale.size(), 0);
  if (call.has(2)) at_bias = offsets(x.type.shape, broadcast_strides(inputs[2].type.shape, x.type.shape));
  for (size_t i = 0; i < cells.size(); ++i) {
    const double normal = (x.floats[i] - m.mean[cells.of[i]]) / std::sqrt(m.variance[cells.of[i]] + epsilon_of(call));
    results[0].floats[i] = normal * inputs[1].floats[at_scale[i]] + (call.has(2) ? inputs[2].floats[at_bias[i]] : 0.0);
  }
  if (results.size() > 1) results[1].floats = m.mean;
  for (size_t k = 0; results.size() > 2 && k < m.variance.size(); ++k) {
    results[2].floats[k] = 1 / std::sqrt(m.variance[k] + epsilon_of(call));
  }
  return results;
}

void ref_rms_norm(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const Cells cells = cells_of(x.type.shape, trailing_axes(call));
  const std::vector<double> squares = cells.mean([&](size_t i) { return x.floats[i] * x.floats[i]; });
  const std::vector<int64_t> at_scale = offsets(x.type.shape, broadcast_strides(inputs[1].type.shape, x.type.shape));
  for (size_t i = 0; i < cells.size(); ++i)
    y.floats[i] = x.floats[i] / std::sqrt(squares[cells.of[i]] + epsilon_of(call)) * inputs[1].floats[at_scale[i]];
}

void ref_mean_variance(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const Cells cells = cells_of(x.type.shape, variance_axes(call));
  const Moments m(x, cells);
  for (size_t i = 0; i < cells.size(); ++i) {
    y.floats[i] = (x.floats[i] - m.mean[cells.of[i]]) / (std::sqrt(m.variance[cells.of[i]]) + kVarianceEpsilon);
  }
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  using enum OpClass;
  return {{"batch_norm", kElementwise, infer_channels, te_batch_norm, filled<infer_channels, ref_batch_norm>, {5, 5}},
          {"instance_norm", kReduction, infer_channels, te_group_norm, filled<infer_channels, ref_group_norm>, {3, 3}},
          {"group_norm", kReduction, infer_group, te_group_norm, filled<infer_group, ref_group_norm>, {3, 3}},
          {"layer_norm", kReduction, infer_trailing, te_layer_norm, ref_layer_norm, {2, 3}},
          {"rms_norm", kReduction, infer_trailing, te_rms_norm, filled<infer_trailing, ref_rms_norm>, {2, 2}},
          {"mean_variance_norm", kReduction, infer_plain, te_mean_variance, filled<infer_plain, ref_mean_variance>}};
}

}  // namespace tw::ops
