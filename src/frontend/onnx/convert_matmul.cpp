// Matrix products.
#include <array>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

// numpy's matmul: a vector on the left is a row, on the right a column, and its dimension is dropped from the result.
ValueId numpy_matmul(Emitter& e, ValueId a, ValueId b) {
  const Shape sa = e.shape(a);
  const Shape sb = e.shape(b);
  if (sa.empty() || sb.empty()) throw UserError("an operand is a scalar");
  if (sa.size() == 1) a = e.reshape(a, {1, sa[0]});
  if (sb.size() == 1) b = e.reshape(b, {sb[0], 1});
  const int64_t ka = sa.back();
  const int64_t kb = sb.size() == 1 ? sb[0] : sb[sb.size() - 2];
  if (ka != kb) throw UserError(fmt::format("{} x {}: the inner extents {} and {} differ", to_string(sa), to_string(sb), ka, kb));
  const ValueId y = e.matmul(a, b);
  Shape shape = e.shape(y);
  if (sb.size() == 1) shape.pop_back();
  if (sa.size() == 1) shape.erase(shape.end() - (sb.size() == 1 ? 1 : 2));
  return e.reshape(y, shape);
}

Outputs convert_matmul(NodeContext& c) { return {numpy_matmul(c.emit(), c.input(0), c.input(1))}; }

// alpha * op(A) op(B) + beta * C.
Outputs convert_gemm(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.rank(0) != 2 || c.rank(1) != 2) throw UserError("inputs A and B must be matrices");
  if (c.opset() < 7) c.ignore_attr("broadcast");
  const ValueId a = c.int_or("transA", 0) != 0 ? e.transpose(c.input(0), {1, 0}) : c.input(0);
  const ValueId b = c.int_or("transB", 0) != 0 ? e.transpose(c.input(1), {1, 0}) : c.input(1);
  ValueId y = numpy_matmul(e, a, b);
  const double alpha = c.float_or("alpha", 1);
  const double beta = c.float_or("beta", 1);
  if (alpha != 1) y = e.mul(y, alpha);
  if (!c.has(2)) return {y};
  const ValueId bias = beta == 1 ? c.input(2) : e.mul(c.input(2), beta);
  Shape sum;
  if (!broadcast_shapes(e.shape(y), e.shape(bias), &sum) || sum != e.shape(y)) {
    throw UserError(fmt::format("input C {} cannot be added to a result of {}", to_string(e.shape(bias)), to_string(e.shape(y))));
  }
  return {e.add(y, bias)};
}

// x - zero_point in i32; a zero point of several elements is for each row (of A) or column (of B).
ValueId centered(NodeContext& c, size_t operand, size_t zero_point) {
  Emitter& e = c.emit();
  const ValueId x = e.cast(c.input(operand), DataType::i32());
  if (!c.has(zero_point)) return x;
  ValueId zero = e.cast(c.input(zero_point), DataType::i32());
  if (operand == 0 && e.shape(zero).size() == 1 && e.shape(zero)[0] > 1) zero = e.reshape(zero, {e.shape(zero)[0], 1});
  return e.sub(x, zero);
}

Outputs convert_matmul_integer(NodeContext& c) { return {numpy_matmul(c.emit(), centered(c, 0, 2), centered(c, 1, 3))}; }

constexpr auto kRows = std::to_array<ConverterRow>({
    {"MatMul", 1, 0, convert_matmul},
    {"Gemm", 1, 0, convert_gemm},
    {"MatMulInteger", 10, 0, convert_matmul_integer},
});

}  // namespace

std::span<const ConverterRow> matmul_rows() { return kRows; }

}  // namespace tw::frontend
