#include "frontend/onnx/integer_matmul.h"

#include <algorithm>

namespace tw::frontend {
namespace {

graph::ValueId packed(Emitter& e, const IntegerOperand& operand, int64_t axis) {
  Emitter::Ids inputs = {operand.values};
  if (operand.zero_point != graph::kAbsent) inputs.push_back(operand.zero_point);
  return e.op("pack_pairs", std::move(inputs), {{"axis", axis}});
}

}  // namespace

graph::ValueId integer_matmul(Emitter& e, const IntegerOperand& a, const IntegerOperand& b) {
  const auto rank = [&](const IntegerOperand& x) { return static_cast<int64_t>(e.shape(x.values).size()); };
  return e.op("matmul_pairs", {packed(e, a, rank(a) - 1), packed(e, b, std::max<int64_t>(rank(b) - 2, 0))});
}

}  // namespace tw::frontend
