// Softmax family and normalizations (inference).

#include "frontend/onnx/converters.h"
#include "frontend/onnx/file/element_type.h"

namespace tw::frontend {
namespace {

Converter softmax(std::string_view op) { return plain(op, 1, {{"axis", AxisOr{-1}}}); }

// Before opset 13 the input is seen as a matrix: dimensions before the axis are rows, the others columns.
Converter flat_softmax(std::string_view op) {
  return [op](NodeContext& c) -> Outputs {
    Emitter& e = c.emit();
    const Shape shape = c.shape(0);
    const int64_t axis = c.axis_or("axis", 1, c.rank(0));
    const Shape matrix{num_elements({shape.begin(), shape.begin() + axis}),
                       num_elements({shape.begin() + axis, shape.end()})};
    return {e.reshape(e.op(op, {e.reshape(c.input(0), matrix)}, {{"axis", int64_t{1}}}), shape)};
  };
}

constexpr double kEpsilon = 1e-5F, kMomentum = 0.9F;

double epsilon_of(NodeContext& c) { return c.float_or("epsilon", kEpsilon); }

// Normalizes by the batch's own statistics and moves the running ones towards them.
Outputs training_batch_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.rank(0) < 2) throw UserError("the input must have shape (N, C, ...)");
  std::vector<int64_t> axes{0};
  for (int64_t d = 2; d < c.rank(0); ++d) axes.push_back(d);
  const ValueId x = c.input(0);
  const std::vector<ValueId> batch = e.apply("mean_variance", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  const ValueId y = e.op("batch_norm", {x, c.input(1), c.input(2), batch[0], batch[1]}, {{"epsilon", epsilon_of(c)}});
  const double momentum = c.float_or("momentum", kMomentum);
  const auto running = [&](size_t k, ValueId now) {
    const ValueId old = c.input(k);
    return e.add(e.mul(old, e.number(old, momentum)),
                 e.cast(e.mul(now, e.number(now, 1 - momentum)), e.data_type(old)));
  };
  return {y, running(3, batch[0]), running(4, batch[1])};
}

Outputs convert_batch_normalization(NodeContext& c) {
  const double momentum = c.float_or("momentum", kMomentum);
  if (c.int_or("training_mode", 0) != 0) return training_batch_normalization(c);
  if (c.opset() < 7 && c.int_or("is_test", 0) == 0)
    throw Unsupported("is_test 0 (training) is not supported: export the model for inference");
  if (c.opset() < 9 && c.int_or("spatial", 1) == 0) throw Unsupported("spatial 0 is not supported");
  graph::Attrs attrs = {{"epsilon", epsilon_of(c)}};
  if (momentum != kMomentum) attrs["momentum"] = momentum;  // for whoever trains the model
  return {c.emit().op("batch_norm", {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)}, attrs)};
}

// Statistics are computed in stash_type; our operators use at least f32, so only a wider type changes anything.
DataType statistics_type(NodeContext& c) {
  const DataType own = c.type(0).type;
  const DataType stash = element_type(static_cast<int32_t>(c.int_or("stash_type", 1)), "attribute 'stash_type'");
  return stash == DataType::f64() ? stash : own;
}

Outputs convert_layer_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType own = c.type(0).type;
  const DataType type = statistics_type(c);
  const int64_t outputs = c.wants(2) ? 3 : c.wants(1) ? 2 : 1;
  std::vector<ValueId> inputs{e.cast(c.input(0), type), e.cast(c.input(1), type)};
  if (c.has(2)) inputs.push_back(e.cast(c.input(2), type));
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  Outputs result = e.apply("layer_norm", inputs, {{"axis", axis}, {"epsilon", epsilon_of(c)}, {"outputs", outputs}});
  result[0] = e.cast(result[0], own);
  return result;
}

Outputs convert_rms_normalization(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType own = c.type(0).type;
  const DataType type = statistics_type(c);
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const std::vector<ValueId> inputs{e.cast(c.input(0), type), e.cast(c.input(1), type)};
  return {e.cast(e.op("rms_norm", inputs, {{"axis", axis}, {"epsilon", epsilon_of(c)}}), own)};
}

// Scale and bias are for each group at opset 18 to 20, for each channel after.
Outputs convert_group_normalization(NodeContext& c) {
  c.ignore_attr("stash_type");
  const int64_t groups = c.int_attr("num_groups");
  return {c.emit().op("group_norm", {c.input(0), c.input(1), c.input(2)},
                      {{"num_groups", groups}, {"epsilon", epsilon_of(c)}})};
}

Outputs convert_mean_variance_normalization(NodeContext& c) {
  const std::vector<int64_t> axes = normalize_axes(c.ints_or("axes", {0, 2, 3}), c.rank(0));
  return {c.emit().op("mean_variance_norm", {c.input(0)}, {{"axes", axes}})};
}

Outputs convert_lp_normalization(NodeContext& c) {
  const int64_t p = c.int_or("p", 2);
  if (p != 1 && p != 2) throw UserError("attribute 'p' is {}, it must be 1 or 2", p);
  return {c.emit().op("lp_norm", {c.input(0)}, {{"axis", c.axis_or("axis", -1, c.rank(0))}, {"p", p}})};
}

}  // namespace

std::vector<ConverterRow> normalization_rows() {
  return {{"Softmax", 1, 12, flat_softmax("softmax")},
          {"Softmax", 13, 0, softmax("softmax")},
          {"LogSoftmax", 1, 12, flat_softmax("log_softmax")},
          {"LogSoftmax", 13, 0, softmax("log_softmax")},
          {"Hardmax", 1, 12, flat_softmax("hardmax")},
          {"Hardmax", 13, 0, softmax("hardmax")},
          {"BatchNormalization", 6, 0, convert_batch_normalization},
          {"LayerNormalization", 17, 0, convert_layer_normalization},
          {"RMSNormalization", 23, 0, convert_rms_normalization},
          {"InstanceNormalization", 6, 0, plain("instance_norm", 3, {{"epsilon", kEpsilon}})},
          {"GroupNormalization", 18, 0, convert_group_normalization},
          {"MeanVarianceNormalization", 9, 0, convert_mean_variance_normalization},
          {"LpNormalization", 1, 0, convert_lp_normalization},
          {"LRN", 1, 0, plain("lrn", 1, {{"size"}, {"alpha", 1e-4F}, {"beta", 0.75}, {"bias", 1.0}})}};
}

}  // namespace tw::frontend
