// Operators whose result is known at import: constants, ranges, diagonals, windows.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/file/element_type.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

using graph::RefTensor;

RefTensor number_list(DataType type, Shape shape, std::vector<double> floats, std::vector<int64_t> ints) {
  RefTensor t{.type = {type, std::move(shape)}, .floats = std::move(floats), .ints = std::move(ints)};
  t.round_to_type();
  return t;
}

Outputs convert_constant(NodeContext& c) {
  Emitter& e = c.emit();
  if (const onnx::TensorProto* tensor = c.tensor_attr("value")) {
    TensorData data = read_tensor(*tensor, c.importer().files());
    return {c.importer().builder().add_constant(c.name(), data.type, std::move(data.bytes))};
  }
  if (c.has_attr("value_int")) return {e.constant(number_list(DataType::i64(), {}, {}, {c.int_attr("value_int")}))};
  if (c.has_attr("value_ints")) return {e.int_list(c.ints_attr("value_ints"))};
  if (c.has_attr("value_float"))
    return {e.constant(number_list(DataType::f32(), {}, {c.float_or("value_float", 0)}, {}))};
  if (c.has_attr("value_floats")) {
    std::vector<double> values = c.floats_or("value_floats", {});
    const int64_t count = static_cast<int64_t>(values.size());
    return {e.constant(number_list(DataType::f32(), {count}, std::move(values), {}))};
  }
  for (const char* key : {"sparse_value", "value_string", "value_strings"}) {
    if (c.has_attr(key)) throw Unsupported("attribute '{}': only dense numbers are supported", key);
  }
  throw UserError("it has no value");
}

Outputs convert_constant_of_shape(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape shape = c.const_ints(0, "input");
  check_extents(shape, "the result");
  ValueId value = graph::kAbsent;
  if (const onnx::TensorProto* tensor = c.tensor_attr("value")) {
    TensorData data = read_tensor(*tensor, c.importer().files());
    if (data.type.elements() != 1) throw UserError("attribute 'value' must hold one element");
    value = e.reshape(c.importer().builder().add_constant(c.name() + "/value", data.type, std::move(data.bytes)), {});
  } else {
    value = e.scalar(0, DataType::f32());
  }
  return {e.expand(value, shape)};
}

// start, start + delta, ... below (or, with a negative delta, above) limit.
Outputs convert_range(NodeContext& c) {
  c.ignore_attr("stash_type");
  const DataType type = c.type(0).type;
  const RefTensor bounds[] = {c.constant(0, "start"), c.constant(1, "limit"), c.constant(2, "delta")};
  for (const RefTensor& b : bounds) {
    if (b.type.elements() != 1 || b.type.type != type)
      throw UserError("start, limit and delta must be scalars of one type");
  }
  if (bounds[2].at(0) == 0) throw UserError("delta is 0");
  const double count = std::ceil((bounds[1].at(0) - bounds[0].at(0)) / bounds[2].at(0));
  if (!(count <= static_cast<double>(kMaxFoldInputElements))) throw UserError("a range of {} elements", count);
  const int64_t n = std::max<int64_t>(static_cast<int64_t>(count), 0);
  RefTensor result = RefTensor::zeros({type, {n}});
  for (int64_t i = 0; i < n; ++i) {
    if (result.is_float()) {
      result.floats[i] = bounds[0].floats[0] + static_cast<double>(i) * bounds[2].floats[0];
    } else {
      // Unsigned: the count was rounded, so the last element may lie beyond the type's end.
      const uint64_t step = static_cast<uint64_t>(i) * static_cast<uint64_t>(bounds[2].ints[0]);
      result.ints[i] = static_cast<int64_t>(static_cast<uint64_t>(bounds[0].ints[0]) + step);
    }
  }
  result.round_to_type();
  return {c.emit().constant(result)};
}

Outputs convert_eye_like(NodeContext& c) {
  if (c.rank(0) != 2) throw UserError("the input must be a matrix");
  const int64_t k = c.int_or("k", 0);
  DataType type = c.type(0).type;
  if (c.has_attr("dtype")) type = element_type(static_cast<int32_t>(c.int_or("dtype", 1)), "attribute 'dtype'");
  if (c.type(0).elements() > kMaxFoldInputElements) throw Unsupported("a matrix of that size is not supported");
  RefTensor result = RefTensor::zeros({type, c.shape(0)});
  const int64_t columns = c.shape(0)[1];
  for (int64_t i = 0; i < c.shape(0)[0]; ++i) {
    // k outside the matrix (whatever its magnitude) leaves it zero.
    if (k < -i || k >= columns - i) continue;
    if (result.is_float()) {
      result.floats[i * columns + i + k] = 1;
    } else {
      result.ints[i * columns + i + k] = 1;
    }
  }
  return {c.emit().constant(result)};
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), with N the size (periodic) or the size - 1.
Outputs convert_window(NodeContext& c) {
  const int64_t size = c.const_int(0, "size");
  if (size < 0 || size > kMaxFoldInputElements) throw UserError("a window of {} elements", size);
  const bool periodic = c.int_or("periodic", 1) != 0;
  const DataType type =
      element_type(static_cast<int32_t>(c.int_or("output_datatype", 1)), "attribute 'output_datatype'");
  std::array<double, 3> a = {0.5, 0.5, 0};
  if (c.op() == "HammingWindow") a = {25.0 / 46, 21.0 / 46, 0};
  if (c.op() == "BlackmanWindow") a = {0.42, 0.5, 0.08};
  std::vector<double> values;
  const double length = static_cast<double>(periodic ? size : size - 1);
  for (int64_t n = 0; n < size; ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / length;
    values.push_back(a[0] - a[1] * std::cos(angle) + a[2] * std::cos(2 * angle));
  }
  if (!type.is_float()) throw Unsupported("integer windows are not supported");
  return {c.emit().constant(number_list(type, {size}, std::move(values), {}))};
}

}  // namespace

std::vector<ConverterRow> constant_rows() {
  return {{"Constant", 1, 0, convert_constant},     {"ConstantOfShape", 9, 0, convert_constant_of_shape},
          {"Range", 11, 0, convert_range},          {"EyeLike", 9, 0, convert_eye_like},
          {"HannWindow", 17, 0, convert_window},    {"HammingWindow", 17, 0, convert_window},
          {"BlackmanWindow", 17, 0, convert_window}};
}

}  // namespace tw::frontend
