// Circular functions in f64 arithmetic. Fits as in math_f32.cpp.
#include "expr/math_f64.h"

namespace tw {
namespace {

constexpr double kTwoOverPi = 0.63661977236758134308;
constexpr double kHalfPi = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kHalfPiLower = -0x1.f1976b7ed8fbcp-110;

struct SineCosine {
  Expr sine;
  Expr cosine;
};

// Of |r| <= pi/4.
SineCosine sine_cosine(const MathBuilder& m, const Expr& r) {
  const Expr z = m.share(r * r);
  // (sin(r) - r) / r^3, 2^-57.9
  const Expr s =
      m.polynomial(z, {-0.1666666666666663072378, 0.008333333333322115680038, -0.0001984126982958636453823,
                       0.000002755731362004838146118, -2.505074752153618733262e-8, 1.58962145076633267558e-10});
  // (cos(r) - 1 + r^2/2) / r^4, 2^-64.0
  const Expr c =
      m.polynomial(z, {0.04166666666666659282449, -0.00138888888888730398525, 0.00002480158728884136179732,
                       -2.75573141762818104111e-7, 2.087570042652412870851e-9, -1.135851466165722699569e-11});
  // 1 - z/2 rounds by up to half a unit; what it loses is added with the rest.
  const Expr half = m.share(z * m.number(0.5));
  const Expr rounded = m.share(m.number(1) - half);
  const Expr lost = (m.number(1) - rounded) - half;
  return {fma(r * z, s, r), rounded + fma(z * z, c, lost)};
}

// |x| = n * pi/2 + r for |x| <= 2^50, r to full precision: pi/2 in three parts, the first two products exact.
Quadrant reduce_f64(const MathBuilder& m, const Expr& x) {
  const Expr t = m.share(fma(x, m.number(kTwoOverPi), m.number(kMagicF64)));
  const Expr n = m.share(t - m.number(kMagicF64));
  const Expr p = m.share(n * m.number(kHalfPi));
  const Expr p_low = m.share(fma(n, m.number(kHalfPi), -p));
  const Expr q = m.share(n * m.number(kHalfPiLow));
  const Expr q_low = fma(n, m.number(kHalfPiLow), -q);
  const Expr a = m.share(x - p);  // exact: x and p are close
  const Expr lost = [&] {
    const Expr b = m.share(a - p_low);
    const Expr from_p = m.share(a - b);
    const Expr error_b = (a - (b + from_p)) + (from_p - p_low);
    const Expr c = m.share(b - q);
    const Expr from_q = m.share(b - c);
    const Expr error_c = (b - (c + from_q)) + (from_q - q);
    return c + ((error_b + error_c) - (q_low + n * m.number(kHalfPiLower)));
  }();
  return {lost, m.bits(t)};
}

Quadrant reduce_checked(const MathBuilder& m, const Expr& x) {
  const Quadrant q = reduce_f64(m, x);
  // Beyond 2^50 neighbouring numbers are more than a quarter of a unit apart and the quadrant does not fit: NaN.
  return {select(x <= m.number(0x1p50), q.r, m.number(0) / m.number(0)), q.quadrant};
}

// sin/cos in even quadrants, -cos/sin in odd ones.
Expr tangent_of(const MathBuilder& m, const Quadrant& q, const Expr& sign) {
  const SineCosine sc = sine_cosine(m, m.share(q.r));
  const Expr sine = m.share(sc.sine);
  const Expr cosine = m.share(sc.cosine);
  const Expr even = m.share(bit_and(q.quadrant, m.integer(1)) == m.integer(0));
  return m.flip_sign(select(even, sine, -cosine) / select(even, cosine, sine), sign);
}

}  // namespace

// Payne and Hanek's way in f64: 2/pi in pieces of 29 bits. A product of x (24 bits) and a piece is exact; multiples of
// four leave each product, whole quadrants leave the running sum, so that only the fraction is ever rounded.
Quadrant reduce_any_f32(const MathBuilder& m, const Expr& x) {
  Expr fraction = m.number(0);
  Expr quadrants = m.number(0);
  for (double piece : {0x145f306dp-29, 0x19391054p-58, 0x14fe13abp-87, 0x1d1f534dp-116, 0x1b81b6c5p-145, 0x5664f10p-174,
                       0x1c820ff2p-203}) {
    const Expr product = m.share(x * m.number(piece));
    const Expr fours = unary(Op::kRound, product * m.number(0.25));
    const Expr sum = m.share(fraction + fma(fours, m.number(-4), product));
    const Expr whole = m.share(unary(Op::kRound, sum));
    fraction = sum - whole;
    quadrants = quadrants + whole;
  }
  return {fraction * m.number(kHalfPi), m.bits(quadrants + m.number(kMagicF64))};
}

Expr sin_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Quadrant q = reduce_checked(m, m.share(m.magnitude(args[0])));
  const SineCosine sc = sine_cosine(m, m.share(q.r));
  return m.flip_sign(pick_sine(m, m.share(q.quadrant), sc.sine, sc.cosine), args[0]);
}

Expr cos_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Quadrant q = reduce_checked(m, m.share(m.magnitude(args[0])));
  const SineCosine sc = sine_cosine(m, m.share(q.r));
  return pick_sine(m, m.share(q.quadrant + m.integer(1)), sc.sine, sc.cosine);
}

Expr tan_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  return tangent_of(m, reduce_checked(m, m.share(m.magnitude(args[0]))), args[0]);
}

Expr tan_of_f32(const MathBuilder& m, const Expr& x) {
  return tangent_of(m, reduce_any_f32(m, m.share(m.magnitude(x))), x);
}

// atan(a) = offset + atan(t): t = a up to tan(pi/8), (a-1)/(a+1) up to tan(3*pi/8), -1/a above; |t| <= tan(pi/8).
Expr atan_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  constexpr double kTanEighth = 0.41421356237309504880;
  constexpr double kTanThreeEighths = 2.4142135623730950488;
  const Expr a = m.share(m.magnitude(args[0]));
  const Expr one = m.number(1);
  const Expr middle = m.share(m.number(kTanEighth) < a);
  const Expr large = m.share(m.number(kTanThreeEighths) < a);
  const Expr above = select(large, m.number(-1), select(middle, a - one, a));
  const Expr below = select(large, a, select(middle, a + one, one));
  const Expr t = m.share(above / below);
  const Expr z = m.share(t * t);
  // (atan(t) - t) / t^3, 2^-59.5
  const Expr tail = m.polynomial(
      z, {-0.3333333333333319942759, 0.1999999999995415176289, -0.1428571428025392203508, 0.111111107863473411676,
          -0.09090897841088605578736, 0.07692061699813226191841, -0.06663120912661767112102, 0.05848011662729867904537,
          -0.05039853782773852159331, 0.03807844453755055869344, -0.01792233571840156515958});
  const auto offset = [&](double value) {
    return select(large, m.number(value), select(middle, m.number(value / 2), m.number(0)));
  };
  // The low part of the offset matters only beside the offset's rounding: t stays exact when there is none.
  const Expr value = offset(kHalfPi) + (t + fma(t * z, tail, offset(kHalfPiLow)));
  return m.flip_sign(value, args[0]);
}

Expr asin_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr one = m.number(1);
  return atan_f64(m, {m.share(x / m.sqrt((one - x) * (one + x)))});
}

// 2*atan(sqrt((1 - x) / (1 + x)))
Expr acos_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Expr& x = args[0];
  const Expr one = m.number(1);
  const Expr half = m.share(atan_f64(m, {m.share(m.sqrt((one - x) / (one + x)))}));
  return half + half;
}

}  // namespace tw
