// exp, log and their kin in f64 arithmetic. Fits as in math_f32.cpp.
#include <algorithm>
#include <limits>

#include "expr/math_builder.h"
namespace tw {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
// ln 2 cut to 32 bits, so that its product with an exponent is exact, and the rest.
constexpr double kLn2Short = 0x1.62e42fee00000p-1;
constexpr double kLn2Rest = 0x1.a39ef35793c76p-33;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// (exp(r) - 1 - r) / r^2 for |r| <= ln2; 2^-56.5
Expr exp_tail(const MathBuilder& m, const Expr& r) {
  return m.polynomial(r, {0.4999999999999992790257, 0.1666666666666693728185, 0.04166666666670210885152,
                          0.008333333333269792815625, 0.001388888888357480403466, 0.000198412698928789609839,
                          0.00002480159083087826350356, 0.000002755730061367082355025, 2.7556157864250577987e-7,
                          2.505503994777478618418e-8, 2.106234436045544558417e-9, 1.593514827512722222931e-10});
}

// exp(x + low) = p * s * s, as in math_f32.cpp, for |x| < 750. `low` may be null.
struct ExpParts {
  Expr p;
  Expr s;
};
ExpParts exp_parts(const MathBuilder& m, const Expr& x, const Expr& low) {
  const Expr t = m.share(fma(x, m.number(0.5 * kLog2E), m.number(kMagicF64 + 1023)));
  const Expr k = m.share(t - m.number(kMagicF64 + 1023));
  Expr r = fma(k, m.number(-2 * kLn2Low), fma(k, m.number(-2 * kLn2), x));
  r = m.share(low ? r + low : r);
  const Expr p = fma(r * r, exp_tail(m, r), r) + m.number(1);
  return {p, m.share(m.from_bits(shift_left(m.bits(t), m.integer(52))))};
}

// factor * exp(x + low); overflows and underflows only where the product does.
Expr scaled_exp(const MathBuilder& m, const Expr& x, double factor, const Expr& low = Expr()) {
  const ExpParts parts = exp_parts(m, m.share(m.at_most(m.at_least(x, -746), 711)), low);
  return (parts.p * parts.s) * (factor == 1 ? parts.s : parts.s * m.number(factor));
}

// x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); e as a float.
struct LogParts {
  Expr e;
  Expr f;
};
LogParts log_parts(const MathBuilder& m, const Expr& x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const Expr tiny = m.share(x < m.number(0x1p-1022));
  const Expr i = m.share(m.bits(select(tiny, x * m.number(0x1p54), x)));
  const Expr e = m.share(shift_right(i - m.integer(kSqrtHalf), m.integer(52)));
  const Expr f = m.share(m.from_bits(i - shift_left(e, m.integer(52))) - m.number(1));
  // e as a float without a conversion instruction, which few machines have for vectors.
  constexpr int64_t kMagicBits = 0x4338000000000000;
  const Expr whole = m.from_bits(e + m.integer(kMagicBits)) - m.number(kMagicF64);
  return {m.share(whole + select(tiny, m.number(-54), m.number(0))), f};
}

// (2*atanh(s) - 2*s - 2/3*s^3) / s^5 as a function of z = s^2, |s| <= 0.1717; 2^-66.3 of 2*s
Expr atanh_rest(const MathBuilder& m, const Expr& z) {
  return m.polynomial(z, {0.400000000000022757, 0.2857142857008994892, 0.2222222252167720592, 0.181817842104033576,
                          0.1538676469824714874, 0.1325664279460204381, 0.1319798378946971553});
}

// (2*atanh(s) - 2*s) / s^3
Expr atanh_tail(const MathBuilder& m, const Expr& z) { return fma(z, atanh_rest(m, z), m.number(2.0 / 3)); }

// log(1 + f) = f - (h - s*(h + R)) with s = f/(2+f), h = f^2/2, R = s^2 * atanh_tail; returns h - s*(h + R).
Expr log_correction(const MathBuilder& m, const Expr& f, const Expr& low) {
  const Expr s = m.share(f / (f + m.number(2)));
  const Expr z = m.share(s * s);
  const Expr h = m.share((f * f) * m.number(0.5));
  const Expr inner = fma(z, atanh_tail(m, z), h);
  return h - (low ? fma(s, inner, low) : s * inner);
}

// a + b = sum + error, exactly.
struct Exact {
  Expr sum;
  Expr error;
};
Exact two_sum(const MathBuilder& m, const Expr& a, const Expr& b) {
  const Expr sum = m.share(a + b);
  const Expr from_b = m.share(sum - a);
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}

// a * b = sum + error, exactly.
Exact two_product(const MathBuilder& m, const Expr& a, const Expr& b) {
  const Expr product = m.share(a * b);
  return {product, fma(a, b, -product)};
}

// log(x) as an unevaluated sum of two f64, relative error about 2^-63; x > 0.
Exact double_log(const MathBuilder& m, const Expr& x) {
  constexpr double kTwoThirds = 0x1.5555555555555p-1;
  constexpr double kTwoThirdsLow = 0x1.5555555555555p-55;
  const LogParts parts = log_parts(m, x);
  // s + s_low = f / (2 + f): one step of division with remainder; 2 + f is exact up to its own low part.
  const Expr g = m.share(parts.f + m.number(2));
  const Expr g_low = parts.f - (g - m.number(2));
  const Expr s = m.share(parts.f / g);
  const Expr s_low = m.share((fma(-s, g, parts.f) - s * g_low) / g);
  // 2/3 * s^3 with its error; the rest of the series is small enough to be rounded.
  const Exact square = two_product(m, s, s);
  const Exact cube = two_product(m, square.sum, s);
  const Expr cube_low = fma(square.error, s, cube.error);
  const Exact third = two_product(m, cube.sum, m.number(kTwoThirds));
  const Expr third_low = third.error + fma(cube.sum, m.number(kTwoThirdsLow), cube_low * m.number(kTwoThirds));
  const Expr rest = (cube.sum * square.sum) * atanh_rest(m, square.sum);
  // e*ln2 + 2s + 2/3 s^3 + ...
  const Exact high = two_sum(m, parts.e * m.number(kLn2Short), s + s);
  const Exact higher = two_sum(m, high.sum, third.sum);
  const Expr low = (higher.error + high.error) + (fma(parts.e, m.number(kLn2Rest), third_low) +
                                                  fma(s_low, fma(square.sum, m.number(2), m.number(2)), rest));
  const Expr sum = m.share(higher.sum + low);
  return {sum, m.share(low - (sum - higher.sum))};
}

// |x|^y with its signs and special values: `power` is |x|^y by way of a logarithm that may be NaN where |x| is 1.
Expr finish_pow(const MathBuilder& m, const Expr& x, const Expr& y, const Expr& power) {
  const Expr zero = m.number(0);
  const Expr floor_y = unary(Op::kFloor, y);
  const Expr half = m.share(y * m.number(0.5));
  const Expr odd = floor_y == y && unary(Op::kFloor, half) != half;
  const Expr with_sign = select(odd, m.flip_sign(power, x), power);
  const Expr no_real = x < zero && m.number(-kInfinity) < x && floor_y != y;
  const Expr one = x == m.number(1) || y == zero;  // even of NaN
  return select(one, m.number(1), select(no_real, m.number(kNaN), with_sign));
}

// y * log|x| where |x| = 1 and y is infinite is 0, not NaN.
Expr exponent_of_pow(const MathBuilder& m, const Expr& product, const Expr& x, const Expr& y) {
  const Expr special = m.magnitude(x) == m.number(1) && m.magnitude(y) == m.number(kInfinity);
  return select(special, m.number(0), product);
}

Expr tanh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr a = m.share(m.at_most(m.magnitude(args[0]), 22));
  const Expr e = m.share(expm1_f64(m, m.share(a + a)));
  return m.flip_sign(e / (e + m.number(2)), args[0]);
}

// Below 1 by expm1, above by exp.
Expr sinh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr a = m.share(m.magnitude(args[0]));
  const Expr e = m.share(expm1_f64(m, a));
  const Expr h = m.share(scaled_exp(m, a, 0.5));
  const Expr small = (e + e / (e + m.number(1))) * m.number(0.5);
  return m.flip_sign(select(a < m.number(1), small, h - m.number(0.25) / h), args[0]);
}

Expr cosh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr h = m.share(scaled_exp(m, m.share(m.magnitude(args[0])), 0.5));
  return h + m.number(0.25) / h;
}

// log of 2x where x is so large that the exact argument rounds to it.
Expr log_of_double(const MathBuilder& m, const Expr& x) { return log_f64(m, x) + m.number(kLn2); }

Expr asinh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr a = m.share(m.magnitude(args[0]));
  const Expr square = m.share(a * a);
  const Expr exact = log1p_f64(m, m.share(a + square / (m.number(1) + m.sqrt(m.number(1) + square))));
  return m.flip_sign(select(a < m.number(0x1p28), exact, log_of_double(m, a)), args[0]);
}

Expr acosh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr t = m.share(x - m.number(1));
  const Expr exact = log1p_f64(m, m.share(t + m.sqrt(fma(t, t, t + t))));
  return select(x < m.number(1), m.number(kNaN), select(x < m.number(0x1p28), exact, log_of_double(m, x)));
}

Expr atanh_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr a = m.share(m.magnitude(args[0]));
  return m.flip_sign(log1p_f64(m, m.share((a + a) / (m.number(1) - a))) * m.number(0.5), args[0]);
}

Expr exp_row(const MathBuilder& m, const std::vector<Expr>& args) { return exp_f64(m, args[0]); }
Expr expm1_row(const MathBuilder& m, const std::vector<Expr>& args) { return expm1_f64(m, args[0]); }
Expr log_row(const MathBuilder& m, const std::vector<Expr>& args) { return log_f64(m, args[0]); }
Expr sigmoid_row(const MathBuilder& m, const std::vector<Expr>& args) {
  return sigmoid_from(m, args[0], exp_f64(m, m.share(-m.magnitude(args[0]))));
}
Expr softplus_row(const MathBuilder& m, const std::vector<Expr>& args) {
  return m.at_least(args[0], 0) + log1p_f64(m, m.share(exp_f64(m, m.share(-m.magnitude(args[0])))));
}

struct Row {
  const char* name;
  Expansion expansion;
};
constexpr Row kRows[] = {{"acos", acos_f64}, {"acosh", acosh_f64},       {"asin", asin_f64},       {"asinh", asinh_f64},
                         {"atan", atan_f64}, {"atanh", atanh_f64},       {"cos", cos_f64},         {"cosh", cosh_f64},
                         {"erf", erf_f64},   {"exp", exp_row},           {"expm1", expm1_row},     {"fmod", fmod_f64},
                         {"log", log_row},   {"pow", pow_f64},           {"sigmoid", sigmoid_row}, {"sin", sin_f64},
                         {"sinh", sinh_f64}, {"softplus", softplus_row}, {"tan", tan_f64},         {"tanh", tanh_f64}};

}  // namespace

Expr exp_f64(const MathBuilder& m, const Expr& x) { return scaled_exp(m, x, 1); }

// 2 * (2^(n-1) * (exp(r) - 1) + 2^(n-1) - 1/2) with x = n*ln2 + r.
Expr expm1_f64(const MathBuilder& m, const Expr& x0) {
  const Expr x = m.share(m.at_most(m.at_least(x0, -40), 710));
  const Expr t = m.share(fma(x, m.number(kLog2E), m.number(kMagicF64 + 1022)));
  const Expr n = m.share(t - m.number(kMagicF64 + 1022));
  const Expr r = m.share(fma(n, m.number(-kLn2Low), fma(n, m.number(-kLn2), x)));
  const Expr p = fma(r * r, exp_tail(m, r), r);
  const Expr s = m.share(m.from_bits(shift_left(m.bits(t), m.integer(52))));
  const Expr value = fma(s, p, s - m.number(0.5));
  // Below 2^-54 expm1(x) is x: keeps subnormals and the sign of zero.
  return select(m.magnitude(x0) < m.number(0x1p-54), x0, value + value);
}

Expr log_f64(const MathBuilder& m, const Expr& x) {
  const LogParts parts = log_parts(m, x);
  const Expr correction = log_correction(m, parts.f, parts.e * m.number(kLn2Rest));
  return logarithm_from(m, x, fma(parts.e, m.number(kLn2Short), parts.f - correction));
}

// log(u) + c/u with u = 1 + x rounded and c what was lost.
Expr log1p_f64(const MathBuilder& m, const Expr& x) {
  const Exact u = two_sum(m, m.number(1), x);
  const Expr log = m.share(log_f64(m, u.sum));
  const Expr corrected = log + u.error / u.sum;
  const Expr usual = select(m.number(0) < u.sum && u.sum < m.number(0x1p60), corrected, log);
  return select(m.magnitude(x) < m.number(0x1p-54), x, usual);
}

Expr pow_of_f32(const MathBuilder& m, const Expr& x, const Expr& y) {
  const Expr log = log_f64(m, m.share(m.magnitude(x)));
  return finish_pow(m, x, y, exp_f64(m, m.share(exponent_of_pow(m, y * log, x, y))));
}

Expr pow_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr& y = args[1];
  const Expr a = m.share(m.magnitude(x));
  const Exact log = double_log(m, a);
  // Where the low part is no small number (infinite operands), the high part alone decides.
  const Expr high = m.share(exponent_of_pow(m, y * logarithm_from(m, a, log.sum), x, y));
  const Expr low = m.share(fma(y, log.sum, -high) + y * log.error);
  const Expr usual = m.magnitude(low) < m.number(1);
  return finish_pow(m, x, y, scaled_exp(m, high, 1, m.share(select(usual, low, m.number(0)))));
}

Expansion find_expansion_f64(const std::string& name) {
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  return row == std::end(kRows) ? nullptr : row->expansion;
}

// Below 1 a polynomial; above, 1 - exp(-x^2) * erfcx(x).
Expr erf_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr a = m.share(m.at_most(m.magnitude(args[0]), 6));
  const Expr z = m.share(a * a);
  // erf(x) / x on [0, 1] as a function of x^2; 2^-62.7
  const Expr small = m.polynomial(
      z, {1.128379167095512573753, -0.3761263890318374764826, 0.112837916709548595241, -0.0268661706450732825922,
          0.00522397762478466098695, -0.0008548326978958459015585, 0.0001205533104473447265849,
          -0.00001492559369195269316047, 0.000001646097572195414852394, -1.635005525847353531171e-7,
          1.465807642947420886099e-8, -1.136640433221861808494e-9, 5.946474538957148280247e-11});
  // exp(x^2) * erfc(x) on [1, 6], error 2^-59.5 after exp(-x^2)
  const Expr p = m.polynomial(a, {0.99999988688027168882, 1.3906189018956813426, 0.94957151680894595998,
                                  0.37362916416068701306, 0.084358263353200593521, 0.0089316915516608738286});
  const Expr q = m.polynomial(a, {1.0, 2.5189968773971828574, 2.7919611009682028819, 1.7572566461075327469,
                                  0.67021545204959949812, 0.149517225264930374, 0.015831133479617321224});
  const Expr large = m.number(1) - exp_f64(m, m.share(-z)) * (p / q);
  return m.flip_sign(select(a < m.number(1), a * small, large), args[0]);
}

}  // namespace tw
