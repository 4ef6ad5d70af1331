// Operators on quantized values: computed in f32 between a dequantization and a quantization.
#include "frontend/onnx/contrib/contrib.h"
#include "frontend/onnx/converters.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {
namespace {

constexpr std::string_view kChannelsFirst = "put a Transpose before and behind the node";

ValueId parameter(NodeContext& c, size_t k, std::string_view role) {
  if (c.type(k).elements() != 1)
    throw Unsupported("its {} is {}, one for the whole tensor is supported: quantize per tensor", role,
                      to_string(c.type(k)));
  return c.emit().reshape(c.input(k), {});
}

// (x - zero_point) scale of inputs k to k + 2; the zero point may be absent.
ValueId real(NodeContext& c, size_t k) {
  Emitter& e = c.emit();
  ValueId x = e.cast(c.input(k), DataType::i32());
  if (c.has(k + 2)) x = e.sub(x, e.cast(parameter(c, k + 2, "zero point"), DataType::i32()));
  return e.mul(e.cast(x, DataType::f32()), parameter(c, k + 1, "scale"));
}

// With scale and zero point in inputs k and k + 1, as the type of the zero point, or else of input `like`.
Outputs quantized(NodeContext& c, ValueId y, size_t k, size_t like = 0) {
  const ValueId zero = c.has(k + 1) ? parameter(c, k + 1, "zero point") : kAbsent;
  return {quantize(c.emit(), y, parameter(c, k, "scale"), zero, c.type(c.has(k + 1) ? k + 1 : like).type)};
}

Converter binary(std::string_view op) {
  return [op](NodeContext& c) { return quantized(c, c.emit().op(op, {real(c, 0), real(c, 3)}), 6); };
}

Outputs convert_sigmoid(NodeContext& c) { return quantized(c, c.emit().op("sigmoid", {real(c, 0)}), 3); }

Outputs convert_leaky_relu(NodeContext& c) {
  const double alpha = c.float_or("alpha", 0.01F);
  return quantized(c, c.emit().op("leaky_relu", {real(c, 0)}, {{"alpha", alpha}}), 3);
}

// Attribute `opset` says whose Softmax it is: before 13 the dimensions from the axis on are one.
Outputs convert_softmax(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape shape = c.shape(0);
  const bool flat = c.int_attr("opset") < 13;
  const int64_t axis = c.axis_or("axis", flat ? 1 : -1, c.rank(0));
  if (!flat) return quantized(c, e.softmax(real(c, 0), axis), 3);
  const auto at = shape.begin() + axis;
  const ValueId matrix = e.reshape(real(c, 0), {num_elements({shape.begin(), at}), num_elements({at, shape.end()})});
  return quantized(c, e.reshape(e.softmax(matrix, 1), shape), 3);
}

Outputs convert_average_pool(NodeContext& c) {
  require_attr(c, "channels_last", 0, kChannelsFirst);
  graph::Attrs attrs = pool_attrs(c);
  attrs["count_include_pad"] = c.int_or("count_include_pad", 0);
  return quantized(c, c.emit().op("avg_pool", {real(c, 0)}, std::move(attrs)), 3);
}

Outputs convert_global_average_pool(NodeContext& c) {
  if (c.rank(0) < 3) throw UserError("the input {} must have shape (N, C, ...)", to_string(c.shape(0)));
  const int64_t first = c.int_or("channels_last", 0) != 0 ? 1 : 2;
  const std::vector<int64_t> axes = sequence(c.rank(0) - 2, first);
  return quantized(c, c.emit().reduce("reduce_mean", real(c, 0), axes, KeepDims::kYes), 3);
}

Outputs convert_concat(NodeContext& c) {
  std::vector<ValueId> parts;
  for (size_t k = 2; k < c.num_inputs(); k += 3) parts.push_back(real(c, k));
  return quantized(c, c.emit().concat(parts, c.axis_or("axis", 0, c.rank(2))), 0, 2);
}

Outputs convert_where(NodeContext& c) { return quantized(c, c.emit().where(c.input(0), real(c, 1), real(c, 4)), 7, 1); }

// The product of integers, exact in i32, as f32: less their zero points, times both scales.
ValueId real_product(Emitter& e, std::vector<ValueId> operands, ValueId scale_a, ValueId scale_b) {
  while (operands.back() == kAbsent) operands.pop_back();
  return e.mul(e.cast(e.op("matmul_integer", std::move(operands)), DataType::f32()), e.mul(scale_a, scale_b));
}

Outputs convert_matmul_integer_to_float(NodeContext& c) {
  const ValueId y = real_product(c.emit(), {c.input(0), c.input(1), c.input_or_absent(4), c.input_or_absent(5)},
                                 c.input(2), c.input(3));
  return {c.has(6) ? c.emit().add(y, c.input(6)) : y};
}

Outputs convert_dynamic_quantize_matmul(NodeContext& c) {
  const Outputs a = find_converter("", "DynamicQuantizeLinear", 11)->convert(c);
  const ValueId y = real_product(c.emit(), {a[0], c.input(1), a[2], c.input_or_absent(3)}, a[1], c.input(2));
  return {c.has(4) ? c.emit().add(y, c.input(4)) : y};
}

// Input C is in steps of both scales.
Outputs convert_gemm(NodeContext& c) {
  Emitter& e = c.emit();
  const auto matrix = [&](size_t k, const char* key) {
    return c.int_or(key, 0) != 0 ? e.transpose(c.input(k), {1, 0}) : c.input(k);
  };
  ValueId sum = e.op("matmul_integer", {matrix(0, "transA"), matrix(3, "transB"), c.input(2), c.input(5)});
  if (c.has(6)) sum = e.add(sum, c.input(6));
  const ValueId scale = e.mul(c.input(1), e.mul(c.input(4), e.scalar(c.float_or("alpha", 1), DataType::f32())));
  const ValueId y = e.mul(e.cast(sum, DataType::f32()), scale);
  return c.has(7) ? quantized(c, y, 7) : Outputs{y};
}

}  // namespace

std::vector<ConverterRow> contrib_quantized_rows() {
  return {{"QLinearAdd", 1, 0, binary("add"), kMicrosoft},
          {"QLinearMul", 1, 0, binary("mul"), kMicrosoft},
          {"QLinearSigmoid", 1, 0, convert_sigmoid, kMicrosoft},
          {"QLinearLeakyRelu", 1, 0, convert_leaky_relu, kMicrosoft},
          {"QLinearSoftmax", 1, 0, convert_softmax, kMicrosoft},
          {"QLinearAveragePool", 1, 0, convert_average_pool, kMicrosoft},
          {"QLinearConcat", 1, 0, convert_concat, kMicrosoft},
          {"QLinearWhere", 1, 0, convert_where, kMicrosoft},
          {"QGemm", 1, 0, convert_gemm, kMicrosoft},
          {"MatMulIntegerToFloat", 1, 0, convert_matmul_integer_to_float, kMicrosoft},
          {"DynamicQuantizeMatMul", 1, 0, convert_dynamic_quantize_matmul, kMicrosoft},
          {"QLinearGlobalAveragePool", 1, 0, convert_global_average_pool, kMicrosoft}};
}

}  // namespace tw::frontend
