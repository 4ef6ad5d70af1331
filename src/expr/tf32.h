// TF32: f32 without its last 13 bits, as matrix instructions of NVIDIA GPUs read f32. There is no type of that name:
// numbers stay f32, and an expression says where the bits are dropped.
#pragma once
#include <bit>
#include <cmath>

#include "expr/expr.h"

namespace tw {

inline constexpr int32_t kTf32Bits = -0x2000;  // those that stay

/// x, f32, rounded toward zero to 10 bits behind the leading one.
inline Expr to_tf32(const Expr& x) {
  const Expr kept = int_imm(kTf32Bits, DataType::i32());
  return bitcast(DataType::f32(), binary(Op::kAnd, bitcast(DataType::i32(), x), kept));
}
inline float to_tf32(float x) { return std::bit_cast<float>(std::bit_cast<int32_t>(x) & kTf32Bits); }
/// The nearest number that to_tf32 leaves as it is, of two the farther one from zero; x itself where that is infinite.
inline float nearest_tf32(float x) {
  const float nearest = to_tf32(std::bit_cast<float>(std::bit_cast<uint32_t>(x) + 0x1000));
  return std::isfinite(x) && std::isfinite(nearest) ? nearest : x;
}

/// x of to_tf32(x); null for other expressions.
inline const Expr* tf32_operand(const Expr& e) {
  const bool masks = e.op() == Op::kBitcast && e.type() == DataType::f32() && e.arg(0).op() == Op::kAnd;
  const Expr* bits = masks && e.arg(0).arg(1).is_int(kTf32Bits) ? &e.arg(0).arg(0) : nullptr;
  return bits && bits->op() == Op::kBitcast && bits->arg(0).type() == DataType::f32() ? &bits->arg(0) : nullptr;
}
/// Whether e is one, or what select(condition, e, ..) guards.
inline bool rounds_to_tf32(const Expr& e) {
  return tf32_operand(e) != nullptr || (e.op() == Op::kSelect && rounds_to_tf32(e.arg(1)));
}

}  // namespace tw
