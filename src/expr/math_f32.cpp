// Elementary functions in f32 arithmetic. Polynomials and rational functions are minimax fits to the relative error of
// the whole function (Lawson's iteration in 50 digits), coefficients rounded to f32 one after the other and the rest
// fitted again. Each comment gives the error of the fit; the bounds in elementary.cpp add rounding.
#include <algorithm>
#include <array>
#include <numbers>
#include <span>

#include "expr/math_builder.h"

namespace tw {
namespace {

constexpr double kMagic = 0x1.8p23;  // x + kMagic holds round(x) in its low mantissa bits, |x| < 2^22
constexpr double kLn2 = 0x1.62e43p-1;
constexpr double kLn2Low = -0x1.05c61p-29;  // ln 2 - kLn2

// exp(x) = p * s * s with x = 2*k*ln2 + r, |r| <= ln2, p = exp(r), s = 2^k: one power of two would overflow before the
// result does, and underflow before the last subnormal.
Expr exp_clamped(const MathBuilder& m, const Expr& x) {
  constexpr double kHalfLog2E = 0.72134752044448170367996234050095;
  const Expr t = m.share(fma(x, m.number(kHalfLog2E), m.number(kMagic + 127)));
  const Expr k = m.share(t - m.number(kMagic + 127));
  const Expr r = m.share(fma(k, m.number(-2 * kLn2Low), fma(k, m.number(-2 * kLn2), x)));
  // From the third on the coefficients of (exp(r) - 1 - r) / r^2, 2^-26.0.
  const Expr p =
      m.polynomial(r, {1, 1, 0.500000358, 0.166666165, 0.0416612029, 0.00833597407, 0.00141053484, 0.000196284338});
  // The bits of kMagic leave at the top; 127, added to it above, is the exponent's bias.
  const Expr s = m.share(m.from_bits(shift_left(m.bits(t), m.integer(23))));
  return (p * s) * s;
}

// exp(-104) is below half of the smallest subnormal, exp(89) above the largest number.
Expr exp_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  return exp_clamped(m, m.share(m.at_most(m.at_least(args[0], -104), 89)));
}

Expr exp_minus_magnitude(const MathBuilder& m, const Expr& x) {
  return exp_clamped(m, m.share(m.at_least(-m.magnitude(x), -104)));
}

// x = 2^exponent * (1 + f) with 1 + f in [2/3, 4/3), and log(1 + f).
struct LogParts {
  Expr exponent;
  Expr log_mantissa;
};

LogParts log_parts(const MathBuilder& m, const Expr& x) {
  constexpr int64_t kTwoThirds = 0x3f2aaaab;
  const Expr tiny = m.share(x < m.number(0x1p-126));  // subnormals are scaled into the normal range
  const Expr i = m.share(m.bits(select(tiny, x * m.number(0x1p23), x)));
  const Expr e = m.share(shift_right(i - m.integer(kTwoThirds), m.integer(23)));
  const Expr f = m.share(m.from_bits(i - shift_left(e, m.integer(23))) - m.number(1));
  // (log(1 + f) - f + f^2/2) / f^3, 2^-27.7
  const Expr q = m.polynomial(
      f, {0.333332121, -0.249998316, 0.200105727, -0.166790113, 0.14003633, -0.12204048, 0.13993898, -0.128080443});
  const Expr log_mantissa = fma(fma(q, f, m.number(-0.5)), f * f, f);
  return {cast(m.type().element(), e) + select(tiny, m.number(-23), m.number(0)), log_mantissa};
}

Expr log_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const LogParts parts = log_parts(m, args[0]);
  const Expr e = m.share(parts.exponent);
  return logarithm_from(m, args[0], fma(e, m.number(kLn2), fma(e, m.number(kLn2Low), parts.log_mantissa)));
}

// 1 / (1 + exp(-x)) with exp(-x) = p * s^2 as in exp_clamped: (1/s) / (1/s + p * s), where nothing overflows and only
// the division can underflow. r is x + 2*k*ln2: the fit is that of exp(-r).
Expr sigmoid_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  constexpr double kHalfLog2E = 0.72134752044448170367996234050095;
  const Expr x = m.share(m.at_most(m.at_least(args[0], -104), 104));
  const Expr t = m.share(fma(x, m.number(-kHalfLog2E), m.number(kMagic + 127)));
  const Expr k = m.share(t - m.number(kMagic + 127));
  const Expr r = m.share(fma(k, m.number(2 * kLn2Low), fma(k, m.number(2 * kLn2), x)));
  const Expr p =
      m.polynomial(r, {1, -1, 0.500000358, -0.166666165, 0.0416612029, -0.00833597407, 0.00141053484, -0.000196284338});
  const Expr s = m.share(shift_left(m.bits(t), m.integer(23)));
  const Expr inverse = m.share(m.from_bits(m.integer(254 << 23) - s));
  return inverse / fma(p, m.from_bits(s), inverse);
}

// max(x, 0) + log(1 + exp(-|x|))
Expr softplus_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr y = m.share(exp_minus_magnitude(m, args[0]));
  // log(1 + y) / y on [0, 1], 2^-27.5
  const Expr q = m.polynomial(y, {1, -0.499999315, 0.333304763, -0.249582484, 0.196937427, -0.153507784, 0.106729165,
                                  -0.0575902164, 0.0201654751, -0.00330985314});
  return fma(y, q, m.at_least(args[0], 0));
}

// tanh and erf are 2*t / (1 + t^2) with t = N/D a rational function of x: the outer function is flat where t nears 1,
// so that the roundings of N and D do not reach a result near 1.

// t = tanh(x/2) up to x = 9.02, beyond which tanh rounds to 1; 2^-31.9. D = 1 + d: the result comes from d itself,
// which saves the rounding of D where x is small.
Expr tanh_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr x = m.share(m.at_most(m.at_least(args[0], -9.02), 9.02));
  const Expr h = m.share(x * m.number(0.5));
  const Expr z = m.share(h * h);
  const Expr n2 = m.share(fma(x * z, m.polynomial(z, {0.12671493, 0.00263521914, 6.02556975e-06}), x));
  const Expr d = m.share(z * m.polynomial(z, {0.46004826, 0.0226513278, 0.000184921620}));
  return fma(n2, d, n2) / (m.number(1) + fma(n2 * m.number(0.25), n2, d * (d + m.number(2))));
}

// t = erf(x) / (1 + sqrt(1 - erf(x)^2)), up to x = 3.92350245, where it comes out as 1
// (erf itself rounds to 1 from 3.9192 on); 2^-24.8, most of it near 0.
Expr erf_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr x = m.share(m.at_most(m.at_least(args[0], -3.92350245), 3.92350245));
  const Expr z = m.share(x * x);
  const Expr n = m.share(fma(x * z, m.polynomial(z, {0.271938413, 0.0293014571, 0.00236207247}), x));
  const Expr d = m.share(m.polynomial(z, {1.7724539, 0.508628666, 0.087334998, 0.0111726839, 0.000184473189}));
  return ((n + n) * d) / fma(d, d, n * n);
}

// Below 2^16 in three steps with pi/2 in three f32 (the first two are exact); above, in f64.
Quadrant reduce_f32(const MathBuilder& m, const Expr& x) {
  constexpr double kTwoOverPi = 0.63661977236758134;
  const Expr t = m.share(fma(x, m.number(kTwoOverPi), m.number(kMagic)));
  const Expr n = m.share(t - m.number(kMagic));
  Expr r = x;
  for (double part : {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50}) r = fma(n, m.number(-part), r);
  const Expr small = m.share(x < m.number(0x1p16));
  if (m.assumes(small)) return {r, m.bits(t)};
  const MathBuilder wide = m.with_type(ScalarType::kF64);
  const Quadrant large = reduce_any_f32(wide, wide.share(cast(DataType::f64(), x)));
  return {select(small, r, cast(DataType::f32(), large.r)),
          select(small, m.bits(t), cast(DataType::i32(), large.quadrant))};
}

Expr sine_of(const MathBuilder& m, const Expr& r, const Expr& quadrant) {
  const Expr z = m.share(r * r);
  const Expr s = m.polynomial(z, {-0.166666552, 0.00833218824, -0.000195180735});  // (sin(r) - r) / r^3, 2^-27.9
  const Expr c =
      m.polynomial(z, {0.0416666456, -0.00138873095, 2.44323383e-05});  // (cos(r) - 1 + r^2/2) / r^4, 2^-33.0
  const Expr cosine = fma(z * z, c, fma(z, m.number(-0.5), m.number(1)));
  return pick_sine(m, quadrant, fma(r * z, s, r), cosine);
}

Expr sin_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const Quadrant q = reduce_f32(m, m.share(m.magnitude(args[0])));
  return m.flip_sign(sine_of(m, m.share(q.r), m.share(q.quadrant)), args[0]);
}

Expr cos_f32(const MathBuilder& m, const std::vector<Expr>& args) {
  const Quadrant q = reduce_f32(m, m.share(m.magnitude(args[0])));
  return sine_of(m, m.share(q.r), m.share(q.quadrant + m.integer(1)));
}

// ---- For results that are rounded to 16 bits: half a unit in the last place of f16 is 2^-12 at least.

// The product's rounding moves the result by 2^-24 |x|: 2^-17 at most.
Expr exp_16(const MathBuilder& m, const std::vector<Expr>& args) {
  return call("exp2_approx", {args[0] * m.number(std::numbers::log2e)});
}

Expr sigmoid_16(const MathBuilder& m, const std::vector<Expr>& args) {
  return call("reciprocal_approx", {exp_16(m, {-args[0]}) + m.number(1)});
}

Expr softplus_16(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr y = m.share(exp_16(m, {-m.magnitude(args[0])}));
  // log(1 + y) / y on [0, 1], 2^-14.1
  const Expr q = m.polynomial(y, {0.999943256, -0.496977806, 0.306300908, -0.157427192, 0.0413472913});
  return fma(y, q, max(args[0], m.number(0)));
}

// 2^P(|x|) where x < 0, else 2 minus that. P = log2(erfc(|x|)), 2^-13.8 up to 4, from where on the product with x / 2
// is below the smallest f16; it goes on to minus infinity.
Expr erf_plus_1_16(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr p = m.polynomial(m.magnitude(args[0]),
                              {-0.000102492253, -1.62554228, -0.927128792, -0.137606874, 0.0238038246, -0.00188522332});
  const Expr q = m.share(call("exp2_approx", {p}));
  return select(args[0] < m.number(0), q, m.number(2) - q);
}

struct Row {
  const char* name;
  Expansion expansion;
};
constexpr std::array<Row, 12> kRows = {{{"erf_plus_1", erf_plus_1_16},
                                        {"exp", exp_16},
                                        {"sigmoid", sigmoid_16},
                                        {"softplus", softplus_16},
                                        {"cos", cos_f32},
                                        {"erf", erf_f32},
                                        {"exp", exp_f32},
                                        {"log", log_f32},
                                        {"sigmoid", sigmoid_f32},
                                        {"sin", sin_f32},
                                        {"softplus", softplus_f32},
                                        {"tanh", tanh_f32}}};

}  // namespace

Expansion find_expansion_f32(const std::string& name, Results results) {
  const auto rows = std::span(kRows).subspan(results == Results::k16Bits ? 0 : 4);
  const auto row = std::ranges::find(rows, name, &Row::name);
  return row == rows.end() ? nullptr : row->expansion;
}

}  // namespace tw
