// Two 16-bit integers in one i32, and the sum of the products of two such pairs: what a contraction of narrow integers
// sums. Vector machines have it as one instruction (x86: pmaddwd), exact where every operand lies in [-32767, 32767].
#pragma once
#include <optional>

#include "expr/expr.h"

namespace tw {

/// The i32 word (low mod 2^16) + 2^16 * high; low and high are i32 in [-2^15, 2^15).
Expr pack_pair(const Expr& low, const Expr& high);

/// low(a) * low(b) + high(a) * high(b) of i32 words, in i32 (it wraps where both products are 2^30).
Expr pair_product(const Expr& a, const Expr& b);

struct PairOperands {
  Expr a;
  Expr b;
};
/// The words of an expression that pair_product built, also after the half of a word that is the same in all lanes was
/// taken before it was broadcast; nothing for other expressions.
std::optional<PairOperands> match_pair_product(const Expr& e);

}  // namespace tw
