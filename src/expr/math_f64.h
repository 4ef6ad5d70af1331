// Building blocks of the f64 expansions that are used across files. Internal to expr.
#pragma once
#include "expr/math_builder.h"

namespace tw {

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
