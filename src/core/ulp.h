// The spacing of floating-point numbers.
#pragma once
#include "core/data_type.h"

namespace tw {

/// Bits of the significand, hidden one included: f16 11, bf16 8, f32 24, f64 53. Pre: a floating-point type.
int significand_bits(DataType type);
/// Spacing of numbers of `type` at |x|, below its normal numbers theirs; 0 for integers, and where x is not finite.
double ulp(DataType type, double x);

}  // namespace tw
