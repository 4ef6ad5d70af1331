#include "expr/pair_product.h"

namespace tw {
namespace {

constexpr int kHalf = 16;  // bits

Expr number(int64_t value, const Expr& like) { return int_imm(value, like.type()); }

Expr high_half(const Expr& word) { return binary(Op::kShiftRight, word, number(kHalf, word)); }
Expr low_half(const Expr& word) { return high_half(binary(Op::kShiftLeft, word, number(kHalf, word))); }

bool is_half(const Expr& e) { return e.is_int(kHalf) || (e.op() == Op::kBroadcast && e.arg(0).is_int(kHalf)); }

// x of `x op 16`; null for other expressions.
Expr shifted(const Expr& e, Op op) { return e.op() == op && is_half(e.arg(1)) ? e.arg(0) : Expr(); }

Expr word_of_high(const Expr& e) {
  if (e.op() != Op::kBroadcast) return shifted(e, Op::kShiftRight);
  const Expr word = shifted(e.arg(0), Op::kShiftRight);
  return word ? broadcast(word, e.type().lanes()) : word;
}

Expr word_of_low(const Expr& e) {
  const bool same_in_all = e.op() == Op::kBroadcast;
  const Expr half = shifted(same_in_all ? e.arg(0) : e, Op::kShiftRight);
  if (!half) return half;
  const Expr word = shifted(half, Op::kShiftLeft);
  return word && same_in_all ? broadcast(word, e.type().lanes()) : word;
}

bool is_product(const Expr& e) { return e.op() == Op::kMul && e.type().scalar() == ScalarType::kI32; }

}  // namespace

Expr pack_pair(const Expr& low, const Expr& high) {
  return binary(Op::kOr, binary(Op::kAnd, low, number(0xffff, low)), binary(Op::kShiftLeft, high, number(kHalf, high)));
}

Expr pair_product(const Expr& a, const Expr& b) { return low_half(a) * low_half(b) + high_half(a) * high_half(b); }

std::optional<PairOperands> match_pair_product(const Expr& e) {
  if (e.op() != Op::kAdd || !is_product(e.arg(0)) || !is_product(e.arg(1))) return std::nullopt;
  const Expr low_a = word_of_low(e.arg(0).arg(0)), low_b = word_of_low(e.arg(0).arg(1));
  const Expr high_a = word_of_high(e.arg(1).arg(0)), high_b = word_of_high(e.arg(1).arg(1));
  if (!low_a || !low_b || !high_a || !high_b) return std::nullopt;
  if (!equal(low_a, high_a) || !equal(low_b, high_b)) return std::nullopt;
  return PairOperands{low_a, low_b};
}

}  // namespace tw
