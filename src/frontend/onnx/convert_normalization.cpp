// Softmax family and normalizations (inference).
#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/element_type.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

ValueId softmax_like(NodeContext& c, ValueId x, int64_t axis) {
  Emitter& e = c.emit();
  if (c.op() == "Softmax") return e.softmax(x, axis);
  if (c.op() == "LogSoftmax") return e.op("log_softmax", {x}, {{"axis", axis}});
  // Hardmax: 1 at the first maximum, 0 elsewhere.
  const int64_t rank = static_cast<int64_t>(e.shape(x).size());
  const ValueId top = e.op("arg_max", {x}, {{"axis", axis}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{0}}});
  std::vector<int64_t> positions(e.shape(x)[axis]);
  std::iota(positions.begin(), positions.end(), 0);
  Shape shape(rank, 1);
  shape[axis] = e.shape(x)[axis];
  return e.cast(e.op("equal", {top, e.reshape(e.int_list(positions), shape)}), e.data_type(x));
}

Outputs convert_softmax(NodeContext& c) { return {softmax_like(c, c.input(0), c.axis_or("axis", -1, c.rank(0)))}; }

// Before opset 13 the input is seen as a matrix: dimensions before the axis are rows, the others columns.
Outputs convert_flat_softmax(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape shape = c.shape(0);
  const int64_t axis = c.axis_or("axis", 1, c.rank(0));
  const Shape matrix{num_elements({shape.begin(), shape.begin() + axis}), num_elements({shape.begin() + axis, shape.end()})};
  return {e.reshape(softmax_like(c, e.reshape(c.input(0), matrix), 1), shape)};
}

// A parameter of C elements as (C, 1, ..., 1), to broadcast along axis 1 of a tensor of that rank.
ValueId per_channel(Emitter& e, ValueId parameter, int64_t rank) {
  Shape shape(std::max<int64_t>(rank - 1, 1), 1);
  shape[0] = num_elements(e.shape(parameter));
  return e.reshape(parameter, shape);
}

Outputs convert_batch_normalization(NodeContext& c) {
  c.ignore_attr("momentum");
  c.ignore_attr("consumed_inputs");
  if (c.int_or("training_mode", 0) != 0) throw Unsupported("training_mode 1 is not supported: export the model for inference");
  if (c.opset() < 7 && c.int_or("is_test", 0) == 0) throw Unsupported("is_test 0 (training) is not supported: export the model for inference");
  if (c.opset() < 9 && c.int_or("spatial", 1) == 0) throw Unsupported("spatial 0 is not supported");
  const double epsilon = c.float_or("epsilon", 1e-5);
  for (size_t k = 1; k <= 4; ++k) {
    const int64_t channels = c.rank(0) > 1 ? c.shape(0)[1] : 1;
    if (c.shape(k) != Shape{channels}) throw UserError(fmt::format("input {} has shape {}, it must be [{}]", k, to_string(c.shape(k)), channels));
  }
  Emitter& e = c.emit();
  return {e.op("batch_norm", {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)}, {{"epsilon", epsilon}})};
}

struct Moments {
  ValueId mean, inverse_deviation, centered;
};

// Over `axes`: mean, x - mean, and 1 / sqrt(mean((x - mean)^2) + epsilon).
Moments moments(Emitter& e, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  Moments m{};
  m.mean = e.reduce("reduce_mean", x, axes, KeepDims::kYes);
  m.centered = e.sub(x, m.mean);
  const ValueId variance = e.reduce("reduce_mean", e.mul(m.centered, m.centered), axes, KeepDims::kYes);
  m.inverse_deviation = e.op("reciprocal", {e.op("sqrt", {e.add(variance, epsilon)})});
  return m;
}

// The statistics are computed in stash_type (1: f32); 0 or an equal type changes nothing.
DataType stash_type(NodeContext& c) {
  const DataType own = c.type(0).type;
  const DataType stash = element_type(static_cast<int32_t>(c.int_or("stash_type", 1)), "attribute 'stash_type'");
  return own == DataType::f64() ? own : stash;
}

Outputs convert_layer_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType own = c.type(0).type;
  const DataType stash = stash_type(c);
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const Moments m = moments(e, e.cast(c.input(0), stash), axes_from(axis, c.rank(0)), c.float_or("epsilon", 1e-5));
  ValueId y = e.mul(e.cast(e.mul(m.centered, m.inverse_deviation), own), c.input(1));
  if (c.has(2)) y = e.add(y, c.input(2));
  return {y, m.mean, m.inverse_deviation};
}

Outputs convert_rms_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType own = c.type(0).type;
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const ValueId x = e.cast(c.input(0), stash_type(c));
  const ValueId mean = e.reduce("reduce_mean", e.mul(x, x), axes_from(axis, c.rank(0)), KeepDims::kYes);
  const ValueId root = e.op("sqrt", {e.add(mean, c.float_or("epsilon", 1e-5))});
  return {e.mul(e.cast(e.div(x, root), own), c.input(1))};
}

Outputs convert_instance_normalization(NodeContext& c) {
  c.ignore_attr("consumed_inputs");
  if (c.rank(0) < 3) throw UserError("the input must have shape (N, C, D1, ...)");
  Emitter& e = c.emit();
  const Moments m = moments(e, c.input(0), axes_from(2, c.rank(0)), c.float_or("epsilon", 1e-5));
  const ValueId scaled = e.mul(e.mul(m.centered, m.inverse_deviation), per_channel(e, c.input(1), c.rank(0)));
  return {e.add(scaled, per_channel(e, c.input(2), c.rank(0)))};
}

// (N, C, ...) as (N, groups, C / groups, ...): normalized over all but the first two. Scale and bias are for each group
// at opset 18 to 20, for each channel after.
Outputs convert_group_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape shape = c.shape(0);
  const int64_t groups = c.int_attr("num_groups");
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0) {
    throw UserError(fmt::format("num_groups {} does not divide the channels of {}", groups, to_string(shape)));
  }
  const DataType own = c.type(0).type;
  const ValueId rows = e.reshape(c.input(0), {shape[0], groups, num_elements(shape) / std::max<int64_t>(shape[0] * groups, 1)});
  const Moments m = moments(e, e.cast(rows, stash_type(c)), {2}, c.float_or("epsilon", 1e-5));
  ValueId y = e.cast(e.mul(m.centered, m.inverse_deviation), own);
  if (c.opset() < 21) {
    y = e.add(e.mul(y, e.reshape(c.input(1), {groups, 1})), e.reshape(c.input(2), {groups, 1}));
    return {e.reshape(y, shape)};
  }
  y = e.mul(e.reshape(y, shape), per_channel(e, c.input(1), c.rank(0)));
  return {e.add(y, per_channel(e, c.input(2), c.rank(0)))};
}

Outputs convert_mean_variance_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const std::vector<int64_t> axes = normalize_axes(c.ints_or("axes", {0, 2, 3}), c.rank(0));
  const ValueId x = c.input(0);
  const ValueId mean = e.reduce("reduce_mean", x, axes, KeepDims::kYes);
  const ValueId centered = e.sub(x, mean);
  const ValueId variance = e.reduce("reduce_mean", e.mul(centered, centered), axes, KeepDims::kYes);
  return {e.div(centered, e.add(e.op("sqrt", {variance}), 1e-9))};
}

// x / norm along one axis; a zero norm gives zeros.
Outputs convert_lp_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t p = c.int_or("p", 2);
  if (p != 1 && p != 2) throw UserError(fmt::format("attribute 'p' is {}, it must be 1 or 2", p));
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const ValueId x = c.input(0);
  ValueId norm = e.reduce("reduce_sum", p == 1 ? e.op("abs", {x}) : e.mul(x, x), {axis}, KeepDims::kYes);
  if (p == 2) norm = e.op("sqrt", {norm});
  const ValueId zero = e.op("equal", {norm, e.scalar(0, e.data_type(norm))});
  return {e.div(x, e.where(zero, e.scalar(1, e.data_type(norm)), norm))};
}

// y = x / (bias + alpha / size * sum of x^2 over `size` channels around each)^beta. The window sum is a sum of slices.
Outputs convert_lrn(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t size = c.int_attr("size");
  if (c.rank(0) < 2) throw UserError("the input must have shape (N, C, ...)");
  if (size < 1 || size > 1024) throw UserError(fmt::format("attribute 'size' is {}", size));
  const ValueId x = c.input(0);
  std::vector<int64_t> pads(2 * c.rank(0), 0);
  pads[1] = (size - 1) / 2;
  pads[1 + c.rank(0)] = size - 1 - pads[1];
  const ValueId squares = e.pad(e.mul(x, x), pads, "constant", 0);
  ValueId sum = e.slice(squares, 1, 0, c.shape(0)[1]);
  for (int64_t i = 1; i < size; ++i) sum = e.add(sum, e.slice(squares, 1, i, c.shape(0)[1]));
  const ValueId base = e.add(e.mul(sum, c.float_or("alpha", 1e-4) / static_cast<double>(size)), c.float_or("bias", 1));
  return {e.div(x, e.op("pow", {base, e.scalar(c.float_or("beta", 0.75), e.data_type(x))}))};
}

Outputs convert_dropout(NodeContext& c) {
  c.ignore_attr("seed");
  c.ignore_attr("ratio");
  c.ignore_attr("is_test");
  c.ignore_attr("consumed_inputs");
  Emitter& e = c.emit();
  const bool training = c.opset() >= 12 && c.has(2) && c.const_float(2, "training_mode") != 0;
  const double ratio = c.opset() >= 12 && c.has(1) && training ? c.const_float(1, "ratio") : 0.5;
  if (training && ratio != 0) throw Unsupported("training_mode is not supported: export the model for inference");
  Outputs outputs{c.input(0)};
  if (c.wants(1)) outputs.push_back(e.filled(1, {c.opset() < 10 ? c.type(0).type : DataType::boolean(), c.shape(0)}));
  return outputs;
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"Softmax", 1, 12, convert_flat_softmax},
    {"Softmax", 13, 0, convert_softmax},
    {"LogSoftmax", 1, 12, convert_flat_softmax},
    {"LogSoftmax", 13, 0, convert_softmax},
    {"Hardmax", 1, 12, convert_flat_softmax},
    {"Hardmax", 13, 0, convert_softmax},
    {"BatchNormalization", 6, 0, convert_batch_normalization},
    {"LayerNormalization", 17, 0, convert_layer_normalization},
    {"RMSNormalization", 23, 0, convert_rms_normalization},
    {"InstanceNormalization", 6, 0, convert_instance_normalization},
    {"GroupNormalization", 18, 0, convert_group_normalization},
    {"MeanVarianceNormalization", 9, 0, convert_mean_variance_normalization},
    {"LpNormalization", 1, 0, convert_lp_normalization},
    {"LRN", 1, 0, convert_lrn},
    {"Dropout", 1, 0, convert_dropout},
});

}  // namespace

std::span<const ConverterRow> normalization_rows() { return kRows; }

}  // namespace tw::frontend
