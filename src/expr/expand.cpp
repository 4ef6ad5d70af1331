#include "expr/expand.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "expr/elementary.h"
#include "expr/math_builder.h"
#include "support/error.h"
#include "support/join.h"

namespace tw {
namespace {

Expansion expansion_f64(const std::string& name) {
  const Expansion expansion = find_expansion_f64(name);
  TW_CHECK(expansion, "no expansion of '{}'", name);
  return expansion;
}

// What has no arithmetic of its own in f32 is computed in f64 and rounded: rare functions, and nearly exact then.
Expr expand_f32(const MathBuilder& m, const std::string& name, const std::vector<Expr>& args, Results results) {
  if (const Expansion expansion = find_expansion_f32(name, results)) return expansion(m, args);
  const MathBuilder wide = m.with_type(ScalarType::kF64);
  const auto wide_args = mapped(args, [&](const Expr& x) { return wide.share(cast(DataType::f64(), x)); });
  if (name == "tan") return cast(DataType::f32(), tan_of_f32(wide, wide_args[0]));
  if (name == "pow") return cast(DataType::f32(), pow_of_f32(wide, wide_args[0], wide_args[1]));
  if (name == "fmod") return cast(DataType::f32(), fmod_of_f32(wide, wide_args[0], wide_args[1]));
  return cast(DataType::f32(), expansion_f64(name)(wide, wide_args));
}

// x^0.5: a square root, but of minus infinity, and of -0, which x + 0 makes 0.
Expr power_of_one_half(const MathBuilder& m, const Expr& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return select(x == m.number(-kInfinity), m.number(kInfinity), m.sqrt(x + m.number(0)));
}

// The exponent of a power where it is a number in the code.
std::optional<double> constant_of(const Expr& e) {
  if (e.op() == Op::kBroadcast || e.op() == Op::kCast) return constant_of(e.arg(0));
  return e.op() == Op::kFloatImm ? std::optional(e->number) : std::nullopt;
}

// x^n by squaring. No product of these overflows or vanishes where the result does not.
Expr power_of_whole(const MathBuilder& m, Expr x, int n) {
  Expr result;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) result = result ? m.share(result * x) : x;
    if (n > 1) x = m.share(x * x);
  }
  return result;
}

// x^y in arithmetic of `type`, f32 or f64, where y is a number that takes neither logarithm nor exponential.
std::optional<Expr> plain_power(const MathBuilder& m, const Expr& x, double y, Results results) {
  constexpr int kMaxWhole = 16;
  if (y == 0.5) return power_of_one_half(m, x);
  if (y < 1 || y > kMaxWhole || y != std::floor(y)) return std::nullopt;
  const int n = static_cast<int>(y);
  if (n <= 2 || m.is_f64() || results == Results::k16Bits) return power_of_whole(m, x, n);
  const MathBuilder wide = m.with_type(ScalarType::kF64);  // two roundings of f32 would show
  return cast(DataType::f32(), power_of_whole(wide, wide.share(cast(DataType::f64(), x)), n));
}

Expr expand_call(const Expr& call, const Share& share, const Usual& usual, Results results) {
  if (call->name == kPhilox) return expand_philox(call->args, share);
  if (call->name == kRough) return call.arg(0);
  const DataType type = call.type();
  const bool is_f64 = type.scalar() == ScalarType::kF64;
  const bool is_f32 = type.scalar() == ScalarType::kF32;
  const bool rounded = !is_f32 && !is_f64;
  if (call->name == "sqrt" && !rounded) return call;
  const MathBuilder m(is_f64 ? type : DataType(ScalarType::kF32, type.lanes()), share, usual);
  const auto args = mapped(call->args, [&](const Expr& x) { return m.share(cast(m.type().element(), x)); });
  if (call->name == "sqrt") return cast(type.element(), m.sqrt(args[0]));
  if (const std::optional<double> exponent = call->name == "pow" ? constant_of(call->args[1]) : std::nullopt) {
    if (const auto power = plain_power(m, args[0], *exponent, rounded ? Results::k16Bits : results))
      return cast(type.element(), *power);
  }
  return cast(type.element(), is_f64 ? expansion_f64(call->name)(m, args) : expand_f32(m, call->name, args, results));
}

// exp(c y - m) as a power of two of one fused multiplication and subtraction: a weight of a softmax, of which many
// share m log2 e. Null for others, and where c log2 e is more than 1: c y may be as large as f32 holds. It moves the
// exponent by some 2^-23 |m|, as the roundings of c y and of the sum in y do.
Expr power_of_difference(const Expr& e) {
  if (e.op() != Op::kCall || e->name != "exp" || e.arg(0).op() != Op::kSub || e.arg(0).arg(0).op() != Op::kMul)
    return Expr();
  const Expr &scaled = e.arg(0).arg(0), &m = e.arg(0).arg(1);
  const std::optional<double> c = constant_of(scaled.arg(1));
  if (!c || std::abs(*c) * std::numbers::log2e > 1 || e.type().scalar() != ScalarType::kF32) return Expr();
  const auto times = [&](const Expr& x, double factor) { return x * imm(e.type(), factor * std::numbers::log2e); };
  return call("exp2_approx", {times(scaled.arg(0), *c) - times(m, 1)});
}

}  // namespace

Expr expand_elementary(const Expr& e, const Share& share, const Usual& usual) {
  return rewrite_sharing(e, share, [&](const Expr& x, const Share& s) {
    return x.op() == Op::kCall ? expand_call(x, s, usual, Results::kF32) : x;
  });
}

Expr expand_approximate(const Expr& e, const Share& share, const Usual& usual) {
  const auto quotients = [](const Expr& x) {
    if (x.op() != Op::kDiv || x.type().scalar() != ScalarType::kF32) return x;
    const double divisor = std::abs(constant_of(x.arg(1)).value_or(0));
    const bool has_inverse = divisor > 0x1p-100 && divisor < 0x1p100;
    if (has_inverse) return x.arg(0) * imm(x.type(), 1 / *constant_of(x.arg(1)));
    return call("quotient_approx", x->args);
  };
  const auto calls = [](const Expr& x) {
    // exp(y ln 2) is a power of two; 1 + erf(y) stays exact where erf nears -1, also of an erf that may be rough.
    if (x.op() == Op::kCall && x->name == "exp" && x.arg(0).op() == Op::kMul &&
        std::abs(constant_of(x.arg(0).arg(1)).value_or(0) * std::numbers::log2e - 1) < 0x1p-23)
      return call("exp2_approx", {x.arg(0).arg(0)});
    if (const Expr power = power_of_difference(x)) return power;
    for (const size_t i : {0, 1}) {
      if (x.op() != Op::kAdd || !equal(x.arg(1 - i), imm(x.type(), 1))) continue;
      const Expr& term = x.arg(i);
      const Expr& function = term.op() == Op::kCall && term->name == kRough ? term.arg(0) : term;
      if (function.op() == Op::kCall && function->name == "erf") return call("erf_plus_1", function->args);
    }
    return x;
  };
  const Share shared = [&](const Expr& x) { return share ? share(rewrite(x, quotients)) : x; };
  const Expr expanded = rewrite_sharing(rewrite(e, calls), shared, [&](const Expr& x, const Share& s) {
    const bool is_elementary = x.op() == Op::kCall && x->name != "exp2_approx";
    return is_elementary ? expand_call(x, s, usual, Results::k16Bits) : x;
  });
  return rewrite(expanded, quotients);
}

}  // namespace tw
