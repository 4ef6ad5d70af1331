#include "frontend/onnx/converters.h"

#include <algorithm>

namespace tw::frontend {
namespace {

std::vector<ConverterRow> all_rows() {
  std::vector<ConverterRow> rows;
  for (const auto family :
       {elementwise_rows(), activation_rows(),       shape_rows(),  movement_rows(), indexing_rows(),
        reduce_rows(),      normalization_rows(),    conv_rows(),   pool_rows(),     matmul_rows(),
        attention_rows(),   linear_attention_rows(), einsum_rows(), scatter_rows(),  order_rows(),
        recurrent_rows(),   signal_rows(),           sample_rows(), region_rows(),   resize_rows(),
        quantize_rows(),    constant_rows(),         control_rows()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  std::ranges::sort(rows, [](const ConverterRow& a, const ConverterRow& b) {
    return std::tie(a.domain, a.op, a.first) < std::tie(b.domain, b.op, b.first);
  });
  return rows;
}

}  // namespace

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
