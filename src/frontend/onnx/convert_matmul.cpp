// Matrix products.
#include <array>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

Outputs convert_matmul(NodeContext& c) { return {c.emit().matmul(c.input(0), c.input(1))}; }

// alpha * op(A) op(B) + beta * C.
Outputs convert_gemm(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.rank(0) != 2 || c.rank(1) != 2) throw UserError("inputs A and B must be matrices");
  if (c.opset() < 7) c.ignore_attr("broadcast");
  const ValueId a = c.int_or("transA", 0) != 0 ? e.transpose(c.input(0), {1, 0}) : c.input(0);
  const ValueId b = c.int_or("transB", 0) != 0 ? e.transpose(c.input(1), {1, 0}) : c.input(1);
  ValueId y = e.matmul(a, b);
  const double alpha = c.float_or("alpha", 1);
  const double beta = c.float_or("beta", 1);
  if (alpha != 1) y = e.mul(y, e.number(y, alpha));
  if (!c.has(2)) return {y};
  const ValueId bias = beta == 1 ? c.input(2) : e.mul(c.input(2), e.number(c.input(2), beta));
  Shape sum;
  if (!broadcast_shapes(e.shape(y), e.shape(bias), &sum) || sum != e.shape(y)) {
    throw UserError(
        fmt::format("input C {} cannot be added to a result of {}", to_string(e.shape(bias)), to_string(e.shape(y))));
  }
  return {e.add(y, bias)};
}

Outputs convert_matmul_integer(NodeContext& c) {
  std::vector<ValueId> inputs{c.input(0), c.input(1)};
  if (c.has(2) || c.has(3)) inputs.push_back(c.input_or_absent(2));
  if (c.has(3)) inputs.push_back(c.input(3));
  return {c.emit().op("matmul_integer", std::move(inputs))};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"MatMul", 1, 0, convert_matmul},
    {"Gemm", 1, 0, convert_gemm},
    {"MatMulInteger", 10, 0, convert_matmul_integer},
});

}  // namespace

std::span<const ConverterRow> matmul_rows() { return kRows; }

}  // namespace tw::frontend
