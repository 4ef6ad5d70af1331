// Circular functions in f64 arithmetic. Fits as in math_f32.cpp.
#include <algorithm>
#include <limits>

#include "expr/math_builder.h"
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kWordBits = 52;

// 2/pi in words of 52 bits, as many as the product with the largest f64 needs.
constexpr double kTwoOverPiWords[] = {
    0xa2f9836e4e441, 0x529fc2757d1f5, 0x34ddc0db62959, 0x93c439041fe51, 0x63abdebbc561b, 0x7246e3a424dd2,
    0xe006492eea09d, 0x1921cfe1deb1c, 0xb129a73ee8823, 0x5f52ebb4484e9, 0x9c7026b45f7e4, 0x13991d6398353,
    0x39f49c845f8bb, 0xdf9283b1ff897, 0xffde05980fef2, 0xf118b5a0a6d1f, 0x6d367ecf27cb0, 0x9b74f463f669e,
    0x5fea2d7527bac, 0x7ebe5f17b3d07, 0x39f78a5292ea6, 0xbfb5fb11f8d5d, 0x856033046fc7};
constexpr size_t kUsedWords = 5;

// kUsedWords words from word k on, the last one for which 52 k <= e - 2, and what is left of the exponent e.
struct Window {
  std::vector<Expr> words;
  Expr e;
};
// The table moves down by 16 words, by 8, ..
Window words_for(const MathBuilder& m, Expr e) {
  std::vector<Expr> words;
  for (const double word : kTwoOverPiWords) words.push_back(m.number(word));
  for (size_t step = 16; step > 0; step /= 2) {
    const Expr bits = m.integer(kWordBits * static_cast<int64_t>(step));
    const Expr moves = m.share(bits <= e - m.integer(2));
    const size_t left = std::min(words.size(), kUsedWords + step - 1);  // that may still be wanted
    for (size_t i = 0; i < left; ++i) {
      if (i + step < words.size()) words[i] = m.share(select(moves, words[i + step], words[i]));
    }
    words.resize(left);
    e = m.share(select(moves, e - bits, e));
  }
  return {words, e};
}

// x without multiples of four, exactly.
Expr modulo_four(const MathBuilder& m, const Expr& x) {
  return m.share(fma(unary(Op::kRound, x * m.number(0.25)), m.number(-4), x));
}

// Terms whose sum stays the same: the last one is its rounded value, the others are what each addition lost.
void sum_exactly(const MathBuilder& m, std::vector<Expr>& terms) {
  for (size_t i = 1; i < terms.size(); ++i) {
    const Expr sum = m.share(terms[i] + terms[i - 1]);
    const Expr from_last = m.share(sum - terms[i]);
    terms[i - 1] = m.share((terms[i] - (sum - from_last)) + (terms[i - 1] - from_last));
    terms[i] = sum;
  }
}

// Payne and Hanek's way for 2^50 <= x < inf. x * 2/pi = M * sum of W_j * 2^(e - 52 (j + 1)), M < 2^53: words before
// number k = (e - 2) / 52 give multiples of four, of those after the fifth nothing is left that counts beside 2^-62,
// the least distance of a number from a quadrant's end. The products are exact in two parts each. Their sum is exact
// in three: the cancellation of whole quadrants takes 62 bits.
Quadrant reduce_huge(const MathBuilder& m, const Expr& x) {
  constexpr int64_t kMantissa = (int64_t{1} << kWordBits) - 1;
  constexpr int64_t kBias = 1023 + kWordBits;  // x = M * 2^(its exponent's bits - kBias)
  const Expr bits = m.share(m.bits(x));
  const Window window = words_for(m, m.share(shift_right(bits, m.integer(kWordBits)) - m.integer(kBias)));
  const Expr exponent = shift_left(window.e + m.integer(kBias - kWordBits), m.integer(kWordBits));
  const Expr scaled = m.share(m.from_bits(bit_or(bit_and(bits, m.integer(kMantissa)), exponent)));
  std::vector<Expr> terms;  // small ones first
  double unit = 1;
  for (const Expr& word : window.words) {
    const Expr factor = m.share(word * m.number(unit));
    const Expr product = m.share(scaled * factor);
    const Expr rest = m.share(fma(scaled, factor, -product));
    const bool whole = unit > 0x1p-60;  // later products are below four
    terms.insert(terms.begin(), {unit == 1 ? modulo_four(m, rest) : rest, whole ? modulo_four(m, product) : product});
    unit *= 0x1p-52;
  }
  sum_exactly(m, terms);
  const Expr quadrants = m.share(unary(Op::kRound, terms.back()));
  terms.back() = m.share(terms.back() - quadrants);
  sum_exactly(m, terms);
  Expr fraction = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) fraction = fraction + terms[i];
  fraction = m.share(fraction);
  const Expr r = fma(fraction, m.number(kHalfPi), fraction * m.number(kHalfPiLow));
  return {select(x < m.number(kInfinity), r, m.number(std::numeric_limits<double>::quiet_NaN())),
          m.bits(quadrants + m.number(kMagicF64))};
}

// Beyond 2^50 neighbouring numbers are more than a quarter of a unit apart, and reduce_f64's quadrant does not fit.
Quadrant reduce_any_f64(const MathBuilder& m, const Expr& x) {
  const Quadrant q = reduce_f64(m, x);
  const Expr usual = m.share(x <= m.number(0x1p50));
  if (m.assumes(usual)) return q;
  const Quadrant huge = reduce_huge(m, x);
  return {select(usual, q.r, huge.r), select(usual, q.quadrant, huge.quadrant)};
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
  const Quadrant q = reduce_any_f64(m, m.share(m.magnitude(args[0])));
  const SineCosine sc = sine_cosine(m, m.share(q.r));
  return m.flip_sign(pick_sine(m, m.share(q.quadrant), sc.sine, sc.cosine), args[0]);
}

Expr cos_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  const Quadrant q = reduce_any_f64(m, m.share(m.magnitude(args[0])));
  const SineCosine sc = sine_cosine(m, m.share(q.r));
  return pick_sine(m, m.share(q.quadrant + m.integer(1)), sc.sine, sc.cosine);
}

Expr tan_f64(const MathBuilder& m, const std::vector<Expr>& args) {
  return tangent_of(m, reduce_any_f64(m, m.share(m.magnitude(args[0]))), args[0]);
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
