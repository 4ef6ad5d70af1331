// Products of 8-bit integer matrices.
#pragma once
#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// A matrix (or batch of them, or vector) of u8 or i8 and its zero point: kAbsent, one number, or one for each row of
/// the left (column of the right) operand.
struct IntegerOperand {
  graph::ValueId values;
  graph::ValueId zero_point;
};

/// (a - a0) (b - b0) in i32, by numpy's rules of matmul. Both operands become words of two neighbours along the summed
/// axis (pack_pairs): those of constant weights once, when the model is compiled.
graph::ValueId integer_matmul(Emitter& e, const IntegerOperand& a, const IntegerOperand& b);

}  // namespace tw::frontend
