// What draws random numbers: operators of training, whose steps have a seed.
#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

struct Dropout {
  double ratio = 0.5;
  bool trains = true;  // until opset 12 nobody says
};

Dropout read(NodeContext& c, bool kept) {
  if (c.opset() < 12) return {c.float_or("ratio", 0.5)};
  const bool trains = c.has(2) ? c.const_float(2, "training_mode") != 0 : kept;
  return {c.has(1) && trains ? c.const_float(1, "ratio") : 0.5, trains};
}

DataType mask_type(NodeContext& c) { return c.opset() < 10 ? c.type(0).type : DataType::boolean(); }

// y = x * mask / (1 - ratio), where the operator has both in one; the mask is what it makes of ones.
Outputs dropped(NodeContext& c, double ratio, int64_t stream) {
  Emitter& e = c.emit();
  const graph::Attrs attrs = {{"ratio", ratio}, {"seed", c.int_or("seed", 0)}, {"stream", stream}};
  Outputs outputs{e.op("dropout", {c.input(0)}, attrs)};
  if (!c.wants(1)) return outputs;
  const auto mask = e.cast(e.op("dropout", {e.filled(1, c.type(0))}, attrs), DataType::boolean());
  outputs.push_back(e.cast(mask, mask_type(c)));
  return outputs;
}

Outputs convert_dropout(NodeContext& c) {
  c.ignore_attr("seed");
  c.ignore_attr("ratio");
  c.ignore_attr("is_test");
  const std::optional<int64_t> stream = c.importer().next_dropout();
  const auto [ratio, trains] = read(c, stream.has_value());
  if (trains && ratio != 0 && stream) return dropped(c, ratio, *stream);
  if (trains && ratio != 0 && c.opset() >= 12)
    throw Unsupported("training_mode is for 'tilewright train': export the model for inference");
  Outputs outputs{c.input(0)};
  if (c.wants(1)) outputs.push_back(c.emit().filled(1, {mask_type(c), c.shape(0)}));
  return outputs;
}

// ---- Noise.

// What the node says of its numbers, or what its input has.
TensorType drawn_type(NodeContext& c, bool is_like) {
  const DataType own = is_like && c.type(0).type.is_float() ? c.type(0).type : DataType::f32();
  return {c.type_or("dtype", own), is_like ? c.shape(0) : c.ints_attr("shape")};
}

// `mean`, with numbers of `op` added where a step draws them.
graph::ValueId noise(NodeContext& c, std::string_view op, double mean, const TensorType& type, graph::Attrs attrs) {
  const std::optional<int64_t> stream = c.importer().next_dropout();
  if (!stream)
    throw Unsupported(
        "random numbers are for 'tilewright train', whose steps have a seed: export the model for inference");
  c.ignore_attr("seed");
  attrs["stream"] = *stream;
  return c.emit().op(op, {c.emit().filled(mean, type)}, std::move(attrs));
}

template <bool is_like>
Outputs convert_uniform(NodeContext& c) {
  const double low = c.float_or("low", 0), high = c.float_or("high", 1);
  return {noise(c, "noise_uniform", (low + high) / 2, drawn_type(c, is_like), {{"span", high - low}})};
}

template <bool is_like>
Outputs convert_normal(NodeContext& c) {
  const double mean = c.float_or("mean", 0), scale = c.float_or("scale", 1);
  return {noise(c, "noise_normal", mean, drawn_type(c, is_like), {{"scale", scale}})};
}

// 1 with the probability that the input says, else 0.
Outputs convert_bernoulli(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType type = c.type_or("dtype", c.type(0).type);
  const auto drawn = noise(c, "noise_uniform", 0.5, c.type(0), {{"span", 1.0}});
  return {e.cast(e.op("less", {drawn, c.input(0)}), type)};
}

}  // namespace

std::vector<ConverterRow> dropout_rows() {
  return {{"Dropout", 1, 0, convert_dropout},
          {"RandomUniform", 1, 0, convert_uniform<false>},
          {"RandomUniformLike", 1, 0, convert_uniform<true>},
          {"RandomNormal", 1, 0, convert_normal<false>},
          {"RandomNormalLike", 1, 0, convert_normal<true>},
          {"Bernoulli", 15, 0, convert_bernoulli}};
}

}  // namespace tw::frontend
