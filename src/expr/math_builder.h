// What the expansions of elementary functions are written with. Internal to expr.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "expr/share.h"

namespace tw {

/// Builds arithmetic of one float type (f32 or f64, scalar or vector).
class MathBuilder {
 public:
  MathBuilder(DataType type, const Share& share, const Usual& usual) : type_(type), share_(share), usual_(usual) {}

  DataType type() const { return type_; }
  bool is_f64() const { return type_.scalar() == ScalarType::kF64; }
  /// The integer type of the same width and lanes.
  DataType int_type() const { return (is_f64() ? DataType::i64() : DataType::i32()).with_lanes(type_.lanes()); }
  MathBuilder with_type(ScalarType scalar) const { return {DataType(scalar, type_.lanes()), share_, usual_}; }

  Expr number(double value) const { return float_imm(value, type_); }
  Expr integer(int64_t value) const { return int_imm(value, int_type()); }
  Expr share(const Expr& e) const;
  /// Whether the expansion may rely on `condition`: what is costly and needed by few operands only is left out then.
  bool assumes(const Expr& condition) const;

  /// c[0] + c[1]*x + ..., by fused multiply-adds.
  Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) const;

  Expr bits(const Expr& x) const { return bitcast(int_type().element(), x); }
  Expr from_bits(const Expr& x) const { return bitcast(type_.element(), x); }
  Expr magnitude(const Expr& x) const { return unary(Op::kAbs, x); }
  /// x with the sign bit flipped where `sign` has its sign bit set.
  Expr flip_sign(const Expr& x, const Expr& sign) const;
  Expr sqrt(const Expr& x) const { return call("sqrt", {x}); }
  /// The larger (smaller) of x and a constant; NaN stays NaN. One instruction on most machines, unlike kMax and kMin.
  Expr at_least(const Expr& x, double limit) const { return select(x < number(limit), number(limit), x); }
  Expr at_most(const Expr& x, double limit) const { return select(number(limit) < x, number(limit), x); }

 private:
  DataType type_;
  const Share& share_;
  const Usual& usual_;
};

// ---- Integer operators that expr.h spells as binary().
inline Expr bit_and(const Expr& a, const Expr& b) { return binary(Op::kAnd, a, b); }
inline Expr bit_or(const Expr& a, const Expr& b) { return binary(Op::kOr, a, b); }
inline Expr bit_xor(const Expr& a, const Expr& b) { return binary(Op::kXor, a, b); }
inline Expr shift_left(const Expr& a, const Expr& b) { return binary(Op::kShiftLeft, a, b); }
inline Expr shift_right(const Expr& a, const Expr& b) { return binary(Op::kShiftRight, a, b); }

/// One function of one type: its operands to its value.
using Expansion = Expr (*)(const MathBuilder& m, const std::vector<Expr>& args);
/// The expansion of `name` in f32 or f64 arithmetic; null when the type has none of its own (f32: go through f64).
enum class Results : uint8_t { kF32, k16Bits };  // k16Bits: in f32, too, for results that are rounded
Expansion find_expansion_f32(const std::string& name, Results results);
Expansion find_expansion_f64(const std::string& name);

// ---- Shared between the files.
/// Integer arithmetic of philox's operands (elementary.h), u32, scalar or vector.
Expr expand_philox(const std::vector<Expr>& args, const Share& share);
/// Rebuilds e bottom-up: each node, with its operands rewritten, becomes rewrite(node, share). What a branch of a
/// select shares has its loads behind the select's condition, and is 0 where that sends them elsewhere.
Expr rewrite_sharing(const Expr& e, const Share& share, const std::function<Expr(const Expr&, const Share&)>& rewrite);

/// Remainder r in [-pi/4, pi/4] (rounded to the type of m) and quadrant (integer of m's width; the low two bits count)
/// of |x| for x that was an f32: |x| = quadrant * pi/2 + r modulo 2*pi. NaN for infinities. m and x are f64.
struct Quadrant {
  Expr r;
  Expr quadrant;
};
Quadrant reduce_any_f32(const MathBuilder& m, const Expr& x);
/// 1 / (1 + exp(-x)) from exp(-|x|): exact to the last subnormal on both sides.
Expr sigmoid_from(const MathBuilder& m, const Expr& x, const Expr& exp_of_minus_magnitude);
/// `regular` where 0 < x < inf, and the values of a logarithm elsewhere: -inf at 0, NaN below, inf at inf.
Expr logarithm_from(const MathBuilder& m, const Expr& x, const Expr& regular);
/// Sine or cosine of quadrant * pi/2 + r from both functions of r; the low two bits of `quadrant` count.
Expr pick_sine(const MathBuilder& m, const Expr& quadrant, const Expr& sine, const Expr& cosine);

// ---- Building blocks of the f64 expansions.
inline constexpr double kMagicF64 = 0x1.8p52;  // x + kMagicF64 holds round(x) in its low mantissa bits, |x| < 2^51

/// Each takes and gives f64 and is right for every operand.
Expr exp_f64(const MathBuilder& m, const Expr& x);
Expr expm1_f64(const MathBuilder& m, const Expr& x);
Expr log_f64(const MathBuilder& m, const Expr& x);
Expr log1p_f64(const MathBuilder& m, const Expr& x);

Expr sin_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr cos_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr tan_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr asin_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr acos_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr atan_f64(const MathBuilder& m, const std::vector<Expr>& args);
/// Tangent for operands that were f32: any magnitude.
Expr tan_of_f32(const MathBuilder& m, const Expr& x);
Expr erf_f64(const MathBuilder& m, const std::vector<Expr>& args);
Expr pow_f64(const MathBuilder& m, const std::vector<Expr>& args);
/// x^y in f64 for operands that were f32: without the care that f64 results need.
Expr pow_of_f32(const MathBuilder& m, const Expr& x, const Expr& y);

Expr fmod_f64(const MathBuilder& m, const std::vector<Expr>& args);
/// fmod in f64 for operands that were f32: their quotients are below 2^278.
Expr fmod_of_f32(const MathBuilder& m, const Expr& x, const Expr& y);

}  // namespace tw
