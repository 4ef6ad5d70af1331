// Matrix products and determinants.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

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
    throw UserError("input C {} cannot be added to a result of {}", to_string(e.shape(bias)), to_string(e.shape(y)));
  }
  return {e.add(y, bias)};
}

Outputs convert_matmul_integer(NodeContext& c) {
  std::vector<ValueId> inputs = {c.input(0), c.input(1), c.input_or_absent(2), c.input_or_absent(3)};
  while (inputs.back() == graph::kAbsent) inputs.pop_back();
  return {c.emit().op("matmul_integer", std::move(inputs))};
}

constexpr int64_t kMaxEliminations = 64;  // rows of a matrix whose determinant is taken; each is some ten operators

// Gaussian elimination, one step a row, with the largest element of each column as its pivot.
Outputs convert_det(NodeContext& c) {
  Emitter& e = c.emit();
  Shape batch = c.shape(0);
  const int64_t n = batch.empty() ? 0 : batch.back();
  if (batch.size() < 2 || batch[batch.size() - 2] != n || !c.type(0).type.is_float())
    throw UserError("the input {} must hold square matrices of floats", to_string(c.type(0)));
  if (n > kMaxEliminations) throw Unsupported("{} rows; up to {} are supported", n, kMaxEliminations);
  batch.resize(batch.size() - 2);
  const int64_t count = num_elements(batch);
  ValueId rest = e.reshape(c.input(0), {count, n, n});  // what is not eliminated yet: [count, m, m]
  ValueId det = e.filled(1, {c.type(0).type, {count, 1, 1}});
  for (int64_t m = n; m > 0; --m) {
    const ValueId column = e.op("abs", {e.slice(rest, 2, 0, 1)});
    const ValueId at = e.op("arg_max", {column}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
    const ValueId row = e.op("gather_elements", {rest, e.expand(at, {count, 1, m})}, {{"axis", int64_t{1}}});
    const ValueId pivot = e.slice(row, 2, 0, 1);
    const ValueId stays = e.op("equal", {at, e.number(at, 0)});
    det = e.mul(det, e.where(stays, pivot, e.op("neg", {pivot})));
    if (m == 1) break;
    // Row 0 goes where the pivot's row was.
    const ValueId taken = e.op("equal", {e.reshape(e.int_list(sequence(m - 1, 1)), {1, m - 1, 1}), at});
    const ValueId below = e.where(taken, e.slice(rest, 1, 0, 1), e.slice(rest, 1, 1, m - 1));
    // A pivot of 0 makes the determinant 0, whatever is divided by then.
    const ValueId divisor = e.where(e.op("equal", {pivot, e.number(pivot, 0)}), e.number(pivot, 1), pivot);
    const ValueId factor = e.div(e.slice(below, 2, 0, 1), divisor);
    rest = e.sub(e.slice(below, 2, 1, m - 1), e.mul(factor, e.slice(row, 2, 1, m - 1)));
  }
  return {e.reshape(det, batch)};
}

}  // namespace

std::vector<ConverterRow> matmul_rows() {
  return {{"MatMul", 1, 0, plain("matmul", 2)},
          {"Gemm", 1, 0, convert_gemm},
          {"MatMulInteger", 10, 0, convert_matmul_integer},
          {"Det", 11, 0, convert_det}};
}

}  // namespace tw::frontend
