// Casts from and to f16 and bf16 as integer arithmetic.
#include "expr/expand.h"
#include "expr/math_builder.h"

namespace tw {
namespace {

// The bits of an f16 or bf16 as i32 >= 0, and back.
Expr half_bits(const Expr& x) { return cast(DataType::i32(), bitcast(DataType(ScalarType::kU16), x)); }
Expr from_half_bits(DataType type, const Expr& bits) {
  return bitcast(type.element(), cast(DataType(ScalarType::kU16), bits));
}

Expr bf16_to_f32(const MathBuilder& m, const Expr& x) { return m.from_bits(shift_left(half_bits(x), m.integer(16))); }

// Moves the exponent's bias by 112; infinities and NaN need twice that. A subnormal, given the exponent of 2^-14, is
// too large by 2^-14, which a subtraction takes off exactly.
Expr f16_to_f32(const MathBuilder& m, const Expr& x) {
  const Expr h = m.share(half_bits(x));
  const Expr magnitude = m.share(bit_and(h, m.integer(0x7fff)));
  const Expr moved = m.share(shift_left(magnitude, m.integer(13)) + m.integer(112 << 23));
  const Expr subnormal = m.from_bits(moved + m.integer(1 << 23)) - m.number(0x1p-14);
  const Expr special = m.from_bits(moved + m.integer(112 << 23));
  const Expr finite = select(magnitude < m.integer(0x400), subnormal, m.from_bits(moved));
  const Expr value = select(magnitude < m.integer(0x7c00), finite, special);
  return m.from_bits(bit_or(m.bits(value), shift_left(bit_and(h, m.integer(0x8000)), m.integer(16))));
}

// Adding half a unit less one plus the kept last bit rounds to nearest even.
Expr f32_to_bf16(const MathBuilder& m, const Expr& x) {
  const Expr u = m.share(m.bits(x));
  const Expr high = m.share(shift_right(u, m.integer(16)));
  const Expr rounded = shift_right(u + bit_and(high, m.integer(1)) + m.integer(0x7fff), m.integer(16));
  const Expr is_nan = m.integer(0x7f800000) < bit_and(u, m.integer(0x7fffffff));
  return from_half_bits(DataType::bf16(), select(is_nan, bit_or(high, m.integer(0x40)), rounded));
}

Expr f32_to_f16(const MathBuilder& m, const Expr& x) {
  const Expr u = m.share(m.bits(x));
  const Expr magnitude = m.share(bit_and(u, m.integer(0x7fffffff)));
  const Expr last = bit_and(shift_right(magnitude, m.integer(13)), m.integer(1));
  const Expr normal = shift_right(magnitude + last + m.integer(0xfff - (112 << 23)), m.integer(13));
  // Below 2^-14: 0.5 has the unit of f16's subnormals, so that the addition rounds to it.
  const Expr subnormal = m.bits(m.from_bits(magnitude) + m.number(0.5)) - m.integer(0x3f000000);
  const Expr finite = select(magnitude < m.integer(0x38800000), subnormal, normal);
  // From 65520 on the nearest is infinity.
  const Expr special = select(m.integer(0x7f800000) < magnitude, m.integer(0x7e00), m.integer(0x7c00));
  const Expr bits = select(magnitude < m.integer(0x477ff000), finite, special);
  const Expr sign = bit_and(shift_right(u, m.integer(16)), m.integer(0x8000));
  return from_half_bits(DataType::f16(), bit_or(bits, sign));
}

// f64 to f32 rounded to odd: an inexact result has its last bit set, so that rounding again gives what rounding once
// does.
Expr f64_to_odd_f32(const MathBuilder& m, const Expr& x) {
  const MathBuilder wide = m.with_type(ScalarType::kF64);
  const Expr nearest = m.share(cast(DataType::f32(), x));
  const Expr back = m.share(cast(DataType::f64(), nearest));
  const Expr u = m.share(m.bits(nearest));
  const Expr toward_x = select(wide.magnitude(x) < wide.magnitude(back), m.integer(-1), m.integer(1));
  const Expr change = back != x && bit_and(u, m.integer(1)) == m.integer(0);
  return m.from_bits(select(change, u + toward_x, u));
}

// A wide integer as f64: above 2^53 the low bits are replaced by one sticky bit, so that the conversion is exact.
Expr wide_int_to_f64(const MathBuilder& m, const Expr& x) {
  const DataType type = x.type();
  const auto number = [&](int64_t value) { return int_imm(value, type); };
  if (type.bits() < 64) return cast(DataType::f64(), x);
  const int64_t dropped = type.is_signed_int() ? 0x7ff : 0xfff;
  const Expr kept = bit_and(x, number(~dropped));
  const Expr sticky = select(bit_and(x, number(dropped)) == number(0), number(0), number((dropped + 1) / 2));
  const Expr large = type.is_signed_int() ? number(int64_t{1} << 53) <= x || x <= number(-(int64_t{1} << 53))
                                          : number(int64_t{1} << 53) <= x;
  return cast(DataType::f64(), m.share(select(large, bit_or(kept, sticky), x)));
}

// f32 that rounds to a half type as x does; exact unless x is wider than f32.
Expr to_f32_for_half(const MathBuilder& m, const Expr& x) {
  const DataType type = x.type();
  if (type.is_float()) return type.scalar() == ScalarType::kF64 ? f64_to_odd_f32(m, x) : x;
  if (type.is_bool() || type.bits() <= 16) return cast(DataType::f32(), x);
  return f64_to_odd_f32(m, m.share(wide_int_to_f64(m, x)));
}

Expr half_to_f32(const MathBuilder& m, const Expr& x) {
  return x.type().scalar() == ScalarType::kF16 ? f16_to_f32(m, x) : bf16_to_f32(m, x);
}
Expr f32_to_half(const MathBuilder& m, DataType type, const Expr& x) {
  return type.scalar() == ScalarType::kF16 ? f32_to_f16(m, x) : f32_to_bf16(m, x);
}

Expr convert_cast(const Expr& e, const Instructions& has, const Share& share) {
  Expr x = e.arg(0);
  if (!e.type().is_half() && !x.type().is_half()) return e;
  const DataType other = (e.type().is_half() ? x : e).type().element();
  if (has.halves && other == DataType::f32()) return e;
  const Usual any_operand;
  const MathBuilder m(DataType(ScalarType::kF32, e.type().lanes()), share, any_operand);
  if (x.type().is_half()) x = m.share(has.halves ? cast(DataType::f32(), x) : half_to_f32(m, x));
  if (!e.type().is_half()) return cast(e.type().element(), x);
  x = m.share(to_f32_for_half(m, x));
  return has.halves ? cast(e.type().element(), x) : f32_to_half(m, e.type(), x);
}

}  // namespace

Expr expand_conversions(const Expr& e, const Instructions& has, const Share& share) {
  return rewrite_sharing(
      e, share, [&](const Expr& x, const Share& s) { return x.op() == Op::kCast ? convert_cast(x, has, s) : x; });
}

}  // namespace tw
