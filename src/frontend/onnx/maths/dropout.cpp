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

}  // namespace

std::vector<ConverterRow> dropout_rows() { return {{"Dropout", 1, 0, convert_dropout}}; }

}  // namespace tw::frontend
