// Linear quantization: real = (quantized - zero_point) * scale.
#include <algorithm>

#include "expr/scalar.h"
#include "frontend/onnx/converters.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {

ValueId quantize(Emitter& e, ValueId x, ValueId scale, ValueId zero_point, DataType type) {
  if (!type.is_int() || type.bits() > 16) throw Unsupported("quantized type {} is not supported", to_string(type));
  const auto nearest = [&](double x) { return static_cast<double>(saturate_to(type.scalar(), x)); };
  ValueId q = e.op("round", {e.div(x, scale)});
  if (zero_point != graph::kAbsent) q = e.add(q, e.cast(zero_point, e.data_type(q)));
  return e.cast(e.op("clip", {q}, {{"min", nearest(-HUGE_VAL)}, {"max", nearest(HUGE_VAL)}}), type);
}

namespace {

// A scale or zero point of one element is for all; of a vector for each index of `axis`; of the input's rank for blocks
// of `block_size` along `axis`, whose elements are repeated here.
ValueId spread(NodeContext& c, ValueId parameter, int64_t axis, int64_t block) {
  Emitter& e = c.emit();
  const Shape& target = c.shape(0);
  Shape shape = e.shape(parameter);
  if (num_elements(shape) == 1 && shape.size() <= 1) return e.reshape(parameter, {});
  if (shape.size() == 1 && block == 0) {
    if (target.empty()) throw UserError("scale or zero point of shape {} for a scalar", to_string(shape));
    return e.reshape(parameter, along_axis(c.rank(0), axis, shape[0]));
  }
  if (shape.size() != target.size() || block < 1) throw UserError("scale or zero point of shape {}", to_string(shape));
  // [.., blocks, ..] -> [.., blocks, 1, ..] -> [.., blocks, block, ..] -> cut to the input's extent.
  Shape split = shape;
  split.insert(split.begin() + axis + 1, 1);
  Shape repeated = split;
  repeated[axis + 1] = block;
  Shape merged = shape;
  if (shape[axis] > 0 && block > (int64_t{1} << 40) / shape[axis]) throw UserError("block_size {}", block);
  merged[axis] = shape[axis] * block;
  if (merged[axis] < target[axis]) throw UserError("{} blocks of {} do not cover axis {}", shape[axis], block, axis);
  return e.slice(e.reshape(e.expand(e.reshape(parameter, split), repeated), merged), axis, 0, target[axis]);
}

struct Axis {
  int64_t axis, block;
};

Axis quantization_axis(NodeContext& c) {
  const int64_t rank = std::max<int64_t>(c.rank(0), 1);
  const bool per_tensor = c.type(1).elements() == 1 && c.rank(1) <= 1;
  // The default axis 1 need not exist for a single scale.
  const int64_t axis = c.int_or("axis", 1);
  return {per_tensor ? 0 : normalize_axis(axis, rank), c.int_or("block_size", 0)};
}

Outputs convert_quantize_linear(NodeContext& c) {
  c.ignore_attr("saturate");
  Emitter& e = c.emit();
  const Axis axis = quantization_axis(c);
  DataType type = c.type_or("output_dtype", ScalarType::kU8);
  if (c.has(2)) type = c.type(2).type;
  DataType precision = c.type_or("precision", c.type(1).type);
  if (!precision.is_float()) precision = DataType::f32();
  const ValueId scale = e.cast(spread(c, c.input(1), axis.axis, axis.block), precision);
  const ValueId zero = c.has(2) ? spread(c, c.input(2), axis.axis, axis.block) : graph::kAbsent;
  return {quantize(e, e.cast(c.input(0), precision), scale, zero, type)};
}

Outputs convert_dequantize_linear(NodeContext& c) {
  Emitter& e = c.emit();
  const Axis axis = quantization_axis(c);
  const DataType math = c.type(1).type;
  const DataType type = c.type_or("output_dtype", math);
  ValueId x = e.cast(c.input(0), DataType::i32());
  if (c.has(2)) x = e.sub(x, e.cast(spread(c, c.input(2), axis.axis, axis.block), DataType::i32()));
  const ValueId scale = spread(c, c.input(1), axis.axis, axis.block);
  return {e.cast(e.mul(e.cast(x, math), scale), type)};
}

// u8 with scale (max(x, 0) - min(x, 0)) / 255 and the zero point that maps 0 exactly.
Outputs convert_dynamic_quantize(NodeContext& c) {
  Emitter& e = c.emit();
  const std::vector<int64_t> all = sequence(c.rank(0));
  const ValueId x = c.input(0);
  const ValueId high = e.op("max", {e.reduce("reduce_max", x, all, KeepDims::kNo), e.number(x, 0)});
  const ValueId low = e.op("min", {e.reduce("reduce_min", x, all, KeepDims::kNo), e.number(x, 0)});
  const ValueId scale = e.div(e.sub(high, low), e.number(x, 255));
  const ValueId zero =
      e.op("round", {e.op("clip", {e.div(e.op("neg", {low}), scale)}, {{"min", 0.0}, {"max", 255.0}})});
  const ValueId zero_point = e.cast(zero, {ScalarType::kU8});
  return {quantize(e, x, scale, zero_point, {ScalarType::kU8}), scale, zero_point};
}

// A scale or zero point of one element as a scalar, of a vector along axis `axis` of a tensor of rank `rank`.
ValueId along(Emitter& e, ValueId parameter, int64_t axis, int64_t rank) {
  const int64_t count = num_elements(e.shape(parameter));
  if (count == 1) return e.reshape(parameter, {});
  if (axis >= rank) throw UserError("scale or zero point of {} elements for a tensor of rank {}", count, rank);
  return e.reshape(parameter, along_axis(rank, axis, count));
}

// (a - a0) (b - b0) exactly in i32, times a_scale b_scale / y_scale.
Outputs convert_qlinear_matmul(NodeContext& c) {
  Emitter& e = c.emit();
  const ValueId sum = e.op("matmul_integer", {c.input(0), c.input(3), c.input(2), c.input(5)});
  const int64_t rank = static_cast<int64_t>(e.shape(sum).size());
  const auto real = [&](size_t k) { return e.cast(c.input(k), DataType::f32()); };
  const ValueId scale = e.mul(along(e, real(1), std::max<int64_t>(rank - 2, 0), rank),
                              along(e, real(4), std::max<int64_t>(rank - 1, 0), rank));
  const ValueId y = e.mul(e.cast(sum, DataType::f32()), e.div(scale, e.reshape(real(6), {})));
  return {quantize(e, y, e.scalar(1, DataType::f32()), e.reshape(c.input(7), {}), c.type(7).type)};
}

Outputs convert_qlinear_conv(NodeContext& c) {
  Emitter& e = c.emit();
  ValueId sum = e.op("conv_integer", {c.input(0), c.input(3), c.input(2), c.input(5)},
                     conv_attributes(c, c.shape(0), c.shape(3)));
  const int64_t rank = c.rank(0);
  if (c.has(8)) sum = e.add(sum, along(e, c.input(8), 1, rank));
  const ValueId scale = e.mul(e.reshape(c.input(1), {}), along(e, c.input(4), 1, rank));
  const ValueId y = e.mul(e.cast(sum, DataType::f32()), e.div(scale, e.reshape(c.input(6), {})));
  return {quantize(e, y, e.scalar(1, DataType::f32()), e.reshape(c.input(7), {}), c.type(7).type)};
}

}  // namespace

std::vector<ConverterRow> quantize_rows() {
  return {{"QuantizeLinear", 10, 0, convert_quantize_linear},
          {"DequantizeLinear", 10, 0, convert_dequantize_linear},
          {"QuantizeLinear", 1, 0, convert_quantize_linear, "com.microsoft"},
          {"DequantizeLinear", 1, 0, convert_dequantize_linear, "com.microsoft"},
          {"QLinearMatMul", 10, 0, convert_qlinear_matmul},
          {"QLinearConv", 10, 0, convert_qlinear_conv},
          {"DynamicQuantizeLinear", 11, 0, convert_dynamic_quantize}};
}

}  // namespace tw::frontend
