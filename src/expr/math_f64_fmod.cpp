// The remainder of a truncated division, exactly.
#include <limits>

#include "expr/math_builder.h"
namespace tw {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// x = mantissa * 2^exponent with 2^52 <= mantissa < 2^53, a whole number; of 0 < x < inf.
struct Decomposed {
  Expr mantissa;
  Expr exponent;
};
Decomposed decomposed(const MathBuilder& m, const Expr& x) {
  constexpr int64_t kMantissa = (int64_t{1} << 52) - 1;
  constexpr int64_t kBias = 1023 + 52;
  const Expr tiny = m.share(x < m.number(0x1p-1022));
  const Expr bits = m.share(m.bits(select(tiny, x * m.number(0x1p54), x)));
  const Expr bias = select(tiny, m.integer(kBias + 54), m.integer(kBias));
  return {m.share(m.from_bits(bit_or(bit_and(bits, m.integer(kMantissa)), m.integer(kBias << 52)))),
          m.share(shift_right(bits, m.integer(52)) - bias)};
}

// 2^k for a normal result.
Expr power_of_two(const MathBuilder& m, const Expr& k) {
  return m.from_bits(shift_left(k + m.integer(1023), m.integer(52)));
}

// Arithmetic modulo a whole number M < 2^53, on whole numbers of at most M / 2 in magnitude. All of it is exact.
class Modulo {
 public:
  Modulo(const MathBuilder& m, const Expr& modulus)
      : m_(m), modulus_(modulus), half_(m.share(modulus * m.number(0.5))) {}

  // Of |x| <= M.
  Expr balanced(const Expr& x) const {
    return m_.share(select(half_ < x, x - modulus_, select(x < -half_, x + modulus_, x)));
  }
  Expr twice(const Expr& x) const { return balanced(m_.share(x + x)); }
  // The quotient is below 2^52 and rounds by a quarter at most: what the rounded product leaves is below 3/4 M, and
  // what the product lost is below 2^50.
  Expr product(const Expr& x, const Expr& y) const {
    const Expr rounded = m_.share(x * y);
    const Expr lost = fma(x, y, -rounded);
    const Expr left = fma(-unary(Op::kRound, rounded / modulus_), modulus_, rounded);
    return balanced(m_.share(left + lost));
  }

 private:
  const MathBuilder& m_;
  Expr modulus_;
  Expr half_;
};

// (X 2^d) mod Y, X and Y the mantissas of x >= y and d what their exponents differ by, is X (2^d mod Y) mod Y. 2^d by
// squares: the bits of d above the lowest `squares` give a power of two that is below Y / 2 itself.
Expr remainder_by_powers(const MathBuilder& m, const Expr& x, const Expr& y, int squares) {
  const Decomposed a = decomposed(m, x);
  const Decomposed b = decomposed(m, y);
  const Modulo modulo(m, b.mantissa);
  const Expr d = m.share(a.exponent - b.exponent);
  Expr power = m.share(power_of_two(m, shift_right(d, m.integer(squares))));
  for (int bit = squares; bit-- > 0;) {
    power = modulo.product(power, power);
    const Expr is_set = bit_and(d, m.integer(int64_t{1} << bit)) != m.integer(0);
    power = m.share(select(is_set, modulo.twice(power), power));
  }
  const Expr below = m.share(select(b.mantissa <= a.mantissa, a.mantissa - b.mantissa, a.mantissa));
  const Expr rest = modulo.product(modulo.balanced(below), power);
  const Expr whole = select(rest < m.number(0), rest + b.mantissa, rest);
  // In two steps: the power itself may be below the smallest normal number.
  const Expr first = m.share(shift_right(b.exponent, m.integer(1)));
  return whole * power_of_two(m, first) * power_of_two(m, b.exponent - first);
}

// `squares`: remainder_by_powers is right for quotients below 2^(40 * 2^squares).
Expr remainder(const MathBuilder& m, const Expr& x, const Expr& y, int squares) {
  const Expr value = m.share(m.magnitude(x));
  const Expr size = m.share(m.magnitude(y));
  const Expr quotient = m.share(value / size);
  // A quotient that rounds up to a whole number is one too large; what is left shows it by its sign.
  const Expr rest = m.share(fma(-unary(Op::kFloor, quotient), size, value));
  const Expr near = select(rest < m.number(0), rest + size, rest);
  const Expr usual = m.share(quotient < m.number(0x1p52));
  Expr any = near;
  if (!m.assumes(usual)) {
    const Expr far = remainder_by_powers(m, value, size, squares);
    const Expr defined = value < m.number(kInfinity) && m.number(0) < size;
    any = select(usual, near, select(defined, far, m.number(kNaN)));
  }
  return m.flip_sign(select(value < size, value, any), x);  // an infinite y keeps x
}

}  // namespace

Expr fmod_f64(const MathBuilder& m, const std::vector<Expr>& args) { return remainder(m, args[0], args[1], 6); }

Expr fmod_of_f32(const MathBuilder& m, const Expr& x, const Expr& y) { return remainder(m, x, y, 3); }

}  // namespace tw
