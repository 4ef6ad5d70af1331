// The converter table: one row for each ONNX operator and range of opsets, in one file for each family.
#pragma once
#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/onnx/context.h"

namespace tw::frontend {

/// Values of the node's outputs in order; fewer, or kAbsent, for optional outputs that are not made.
using Outputs = std::vector<graph::ValueId>;
using Converter = std::function<Outputs(NodeContext& c)>;

struct ConverterRow {
  std::string_view op;
  int first;  // opset versions for which `convert` follows the operator's definition
  int last;   // 0: to the newest
  Converter convert;
  std::string_view domain = "";
};

/// An axis of input 0, `fallback` where the node names none.
struct AxisOr {
  int64_t fallback;
};
/// An attribute that a graph operator takes as ONNX gives it, and what it is where the node has none. Without a
/// fallback it is an integer that must be given.
struct PlainAttribute {
  std::string key;
  std::variant<std::monostate, int64_t, double, AxisOr> fallback = {};
};
/// For an ONNX operator that is the graph operator `op` of its first inputs, all of them required.
Converter plain(std::string_view op, size_t inputs = 1, std::vector<PlainAttribute> attributes = {});

std::vector<ConverterRow> elementwise_rows();
std::vector<ConverterRow> shape_rows();
std::vector<ConverterRow> movement_rows();
std::vector<ConverterRow> sequence_rows();
/// Whether the operator takes a sequence of tensors. To all others its stand-in would be a number.
bool reads_sequence(std::string_view op);
std::vector<ConverterRow> reduce_rows();
std::vector<ConverterRow> normalization_rows();
std::vector<ConverterRow> dropout_rows();
std::vector<ConverterRow> conv_rows();
std::vector<ConverterRow> pool_rows();
std::vector<ConverterRow> matmul_rows();
std::vector<ConverterRow> attention_rows();
std::vector<ConverterRow> linear_attention_rows();
std::vector<ConverterRow> einsum_rows();
std::vector<ConverterRow> scatter_rows();
std::vector<ConverterRow> order_rows();
std::vector<ConverterRow> selection_rows();
std::vector<ConverterRow> recurrent_rows();
std::vector<ConverterRow> signal_rows();
std::vector<ConverterRow> sample_rows();
std::vector<ConverterRow> region_rows();
std::vector<ConverterRow> resize_rows();
std::vector<ConverterRow> quantize_rows();
std::vector<ConverterRow> constant_rows();
std::vector<ConverterRow> control_rows();
std::vector<ConverterRow> contrib_norm_rows();
std::vector<ConverterRow> contrib_math_rows();
std::vector<ConverterRow> contrib_quantized_rows();
std::vector<ConverterRow> contrib_attention_rows();

/// All of them by domain, operator and opset.
const std::vector<ConverterRow>& converters();
/// The row for an operator at an opset version of its domain; null when there is none.
const ConverterRow* find_converter(std::string_view domain, std::string_view op, int64_t opset);

// ---- Quantized values, as all operators that make them do (maths/quantize.cpp).
/// saturate(round(x / scale) + zero_point), computed in x's type, ties to even; kAbsent: a zero point of 0.
ValueId quantize(Emitter& e, ValueId x, ValueId scale, ValueId zero_point, DataType type);

}  // namespace tw::frontend
