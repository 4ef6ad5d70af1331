// The converter table: one row for each ONNX operator and range of opsets, in one file for each family.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "frontend/onnx/context.h"

namespace tw::frontend {

/// Values of the node's outputs in order; fewer, or kAbsent, for optional outputs that are not made.
using Outputs = std::vector<graph::ValueId>;

struct ConverterRow {
  std::string_view op;
  int first;  // opset versions for which `convert` follows the operator's definition
  int last;   // 0: to the newest
  Outputs (*convert)(NodeContext& c);
  std::string_view domain = "";
};

std::span<const ConverterRow> elementwise_rows();
std::span<const ConverterRow> activation_rows();
std::span<const ConverterRow> shape_rows();
std::span<const ConverterRow> movement_rows();
std::span<const ConverterRow> indexing_rows();
std::span<const ConverterRow> reduce_rows();
std::span<const ConverterRow> normalization_rows();
std::span<const ConverterRow> conv_rows();
std::span<const ConverterRow> pool_rows();
std::span<const ConverterRow> matmul_rows();
std::span<const ConverterRow> attention_rows();
std::span<const ConverterRow> linear_attention_rows();
std::span<const ConverterRow> einsum_rows();
std::span<const ConverterRow> scatter_rows();
std::span<const ConverterRow> order_rows();
std::span<const ConverterRow> recurrent_rows();
std::span<const ConverterRow> signal_rows();
std::span<const ConverterRow> sample_rows();
std::span<const ConverterRow> region_rows();
std::span<const ConverterRow> resize_rows();
std::span<const ConverterRow> quantize_rows();
std::span<const ConverterRow> constant_rows();
std::span<const ConverterRow> control_rows();

/// All of them by domain, operator and opset.
const std::vector<ConverterRow>& converters();
/// The row for an operator at an opset version of its domain; null when there is none.
const ConverterRow* find_converter(std::string_view domain, std::string_view op, int64_t opset);

}  // namespace tw::frontend
