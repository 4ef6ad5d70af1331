#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

std::vector<ConverterRow> all_rows() {
  std::vector<ConverterRow> rows;
  for (const auto& family : {elementwise_rows(),      shape_rows(),        movement_rows(),
                             sequence_rows(),         reduce_rows(),       normalization_rows(),
                             dropout_rows(),          conv_rows(),         pool_rows(),
                             matmul_rows(),           attention_rows(),    linear_attention_rows(),
                             einsum_rows(),           scatter_rows(),      order_rows(),
                             selection_rows(),        recurrent_rows(),    signal_rows(),
                             sample_rows(),           region_rows(),       resize_rows(),
                             quantize_rows(),         constant_rows(),     control_rows(),
                             contrib_norm_rows(),     contrib_math_rows(), contrib_quantized_rows(),
                             contrib_attention_rows()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  std::ranges::sort(rows, [](const ConverterRow& a, const ConverterRow& b) {
    return std::tie(a.domain, a.op, a.first) < std::tie(b.domain, b.op, b.first);
  });
  return rows;
}

graph::Attr value_of(const NodeContext& c, const PlainAttribute& a) {
  if (const auto* number = std::get_if<double>(&a.fallback)) return c.float_or(a.key, *number);
  if (const auto* whole = std::get_if<int64_t>(&a.fallback)) return c.int_or(a.key, *whole);
  if (const auto* axis = std::get_if<AxisOr>(&a.fallback)) return c.axis_or(a.key, axis->fallback, c.rank(0));
  return c.int_attr(a.key);
}

}  // namespace

Converter plain(std::string_view op, size_t inputs, std::vector<PlainAttribute> attributes) {
  return [op, inputs, attributes = std::move(attributes)](NodeContext& c) -> Outputs {
    graph::Attrs attrs;
    for (const PlainAttribute& a : attributes) attrs[a.key] = value_of(c, a);
    std::vector<ValueId> operands = by_index(inputs, [&](size_t k) { return c.input(k); });
    return {c.emit().op(op, std::move(operands), std::move(attrs))};
  };
}

const std::vector<ConverterRow>& converters() {
  static const std::vector<ConverterRow> kRows = all_rows();
  return kRows;
}

const ConverterRow* find_converter(std::string_view domain, std::string_view op, int64_t opset) {
  const auto key = [](const ConverterRow& row) { return std::pair(row.domain, row.op); };
  for (const ConverterRow& row : std::ranges::equal_range(converters(), std::pair(domain, op), {}, key)) {
    if (opset >= row.first && (row.last == 0 || opset <= row.last)) return &row;
  }
  return nullptr;
}

}  // namespace tw::frontend
