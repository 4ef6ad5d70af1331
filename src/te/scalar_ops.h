// One operation on scalars as the evaluator sees them: floats as f64, integers as 64 bits wrapped in their type.
#pragma once
#include "expr/expr.h"

namespace tw::te {

/// Value of a scalar expression: `f` for floats, `i` for integers and bools.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

/// Keeps the low bits of the type and extends its sign; bools become 0 or 1.
int64_t wrap(int64_t value, DataType type);
/// unary, binary and ternary arithmetic `op` on operands of type `operand`; comparisons give 0 or 1 in `i`.
Scalar apply_unary(Op op, DataType operand, Scalar x);
Scalar apply_binary(Op op, DataType operand, Scalar a, Scalar b);
/// Value conversion: float to integer truncates, saturating, NaN to 0; float to float keeps the f64; to bool is != 0.
Scalar cast_scalar(DataType from, DataType to, Scalar x);
/// The same bits read as another type of the same width; floats are rounded to their type first.
Scalar bitcast_scalar(DataType from, DataType to, Scalar x);

}  // namespace tw::te
