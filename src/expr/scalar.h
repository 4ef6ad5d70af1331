// Values as the types of expr.h hold them: integers wrap, floats round, lanes are combined in one order. (What each
// operation computes is defined by code generators in the terms of their target, by tests/harness/lane_words.h for
// the tests.)
#pragma once
#include <cstdint>

#include "core/data_type.h"
#include "expr/op.h"

namespace tw {

inline bool is_float(ScalarType type) { return type >= ScalarType::kF16; }
inline bool is_comparison(Op op) { return op >= Op::kEq && op <= Op::kLe; }
inline bool is_rounding(Op op) { return op >= Op::kFloor && op <= Op::kTrunc; }
/// Of one value, and of two of one type.
inline bool is_unary(Op op) { return (op >= Op::kNeg && op <= Op::kTrunc) || op == Op::kNot; }
inline bool is_binary(Op op) {
  return (op >= Op::kAdd && op <= Op::kMax) || (op >= Op::kAnd && op <= Op::kLe && op != Op::kNot);
}

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
/// A cast of x to the integer type `to`: truncated, saturated, 0 for NaN; bool: x != 0.
int64_t saturate_to(ScalarType to, double x);

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

}  // namespace tw
