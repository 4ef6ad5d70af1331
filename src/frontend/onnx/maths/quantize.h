// Quantized values, as all operators that make them do.
#pragma once
#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// saturate(round(x / scale) + zero_point), computed in x's type, ties to even; kAbsent: a zero point of 0.
ValueId quantize(Emitter& e, ValueId x, ValueId scale, ValueId zero_point, DataType type);

}  // namespace tw::frontend
