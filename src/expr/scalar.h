// What each operation of expr.h computes on one lane, rounded and wrapped as its type says: the one place that states
// it for constants, evaluators and interpreters. (Code generators say it in the terms of their target.)
#pragma once
#include <cstdint>

#include "core/data_type.h"
#include "expr/expr.h"

namespace tw {

/// One lane. Floats of every width lie in `f` as a double of equal value; integers lie in `i`, sign- or zero-extended
/// (u64: its bits); bool is 0 or 1.
union Word {
  int64_t i;
  double f;
};
inline Word int_word(int64_t value) { return Word{.i = value}; }
inline Word float_word(double value) { return Word{.f = value}; }

inline bool is_float(ScalarType type) { return type >= ScalarType::kF16; }

/// Modulo 2^64.
inline int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// The float of `type` nearest to x, ties to even.
double round_to(ScalarType type, double x);
/// x modulo 2^width, as `type` holds it; bool: x != 0.
int64_t wrap_to(ScalarType type, int64_t x);

/// kNeg, kAbs, kFloor, kCeil, kRound, kTrunc, kNot on a lane of `type`.
Word apply_unary(Op op, ScalarType type, Word x);
/// kAdd .. kMax, kAnd .. kXor, shifts on lanes of `type`; comparisons give bool. Integer division by 0 is the caller's
/// to refuse (see divides_by_zero), as are shifts by the width or more.
Word apply_binary(Op op, ScalarType type, Word a, Word b);
/// a * b + c on floats of `type`, rounded once.
Word apply_fma(ScalarType type, Word a, Word b, Word c);
/// kCast and kBitcast from one element type to another.
Word apply_cast(ScalarType to, ScalarType from, Word x);
Word apply_bitcast(ScalarType to, ScalarType from, Word x);
/// kReduce* by `combine_lanes`. Changes `lanes`.
Word apply_reduce(Op op, ScalarType type, Word* lanes, int count);

/// The binary operation that a kReduce* combines two lanes with.
Op lane_operation(Op reduce);
/// The order in which kReduce* combines `count` lanes until lane 0 is left: of an odd number the last goes into lane 0
/// first - last(n): x[0] with x[n] -, then halves are combined lane by lane - halves(n): x[i] with x[i + n], i < n.
template <typename Last, typename Halves>
void combine_lanes(int count, const Last& last, const Halves& halves) {
  for (int n = count; n > 1;) {
    if (n % 2 == 1) last(--n);
    n /= 2;
    halves(n);
  }
}

/// Why `a op b` has no value (integer division by zero, a shift beyond the width), or null.
const char* undefined_reason(Op op, ScalarType type, Word b);

}  // namespace tw
