// What each operation of expr.h computes on one lane, rounded and wrapped as its type says: the one place that states
// it for the evaluators of the tests. (Code generators say it in the terms of their target.)
#pragma once
#include "expr/scalar.h"

namespace tw {

/// One lane. Floats of every width lie in `f` as a double of equal value; integers lie in `i`, sign- or zero-extended
/// (u64: its bits); bool is 0 or 1.
union Word {
  int64_t i;
  double f;
};
inline Word int_word(int64_t value) { return Word{.i = value}; }
inline Word float_word(double value) { return Word{.f = value}; }
/// An elementary function of `count` operands of `type`, floats or u32.
Word apply_call(ScalarType type, double (*function)(const double*), const Word* args, size_t count);

/// kNeg, kAbs, kFloor, kCeil, kRound, kTrunc, kNot on a lane of `type`.
Word apply_unary(Op op, ScalarType type, Word x);
/// kAdd .. kMax, kAnd .. kXor, shifts on lanes of `type`; comparisons give bool. Integer division by 0 is the caller's
/// to refuse (see undefined_reason), as are shifts by the width or more.
Word apply_binary(Op op, ScalarType type, Word a, Word b);
/// a * b + c on floats of `type`, rounded once.
Word apply_fma(ScalarType type, Word a, Word b, Word c);
/// kCast and kBitcast from one element type to another.
Word apply_cast(ScalarType to, ScalarType from, Word x);
Word apply_bitcast(ScalarType to, ScalarType from, Word x);
/// kReduce* by `combine_lanes`. Changes `lanes`.
Word apply_reduce(Op op, ScalarType type, Word* lanes, int count);

/// Why `a op b` has no value (integer division by zero, a shift beyond the width), or null.
const char* undefined_reason(Op op, ScalarType type, Word b);

}  // namespace tw
