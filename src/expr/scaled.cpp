#include <algorithm>
#include <cmath>
#include <limits>

#include "expr/affine.h"

namespace tw {

namespace {

bool constant(const Expr& e) { return e.op() == Op::kFloatImm; }

// A constant times `factor`; a finite one stays finite.
Expr product_of(const Expr& number, double factor) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double product = number->number * factor;
  const bool finite = std::abs(number->number) <= kMost;
  return float_imm(finite ? std::clamp(product, -kMost, kMost) : product, number.type());
}

// -2^k near `number` where that is as low as what a mask leaves. A product of it is exact then: what subtracts one such
// product from another leaves 0, not its rounding, which would be a large number.
Expr as_power_of_two(const Expr& number) {
  constexpr double kLow = -65536;
  constexpr int kMostExponent = 127;  // of f32
  if (number->number > kLow || std::isinf(number->number)) return number;
  const int exponent = std::min(kMostExponent, static_cast<int>(std::lround(std::log2(-number->number))));
  return float_imm(-std::ldexp(1.0, exponent), number.type());
}

}  // namespace

double common_factor(const Expr& e) {
  if (e.op() == Op::kMul) {
    const Expr& number = e.arg(constant(e.arg(0)) ? 0 : 1);
    return constant(number) && number->number > 0 ? number->number : 1;
  }
  if (e.op() != Op::kSelect) return 1;
  if (constant(e.arg(1))) return common_factor(e.arg(2));
  const double first = common_factor(e.arg(1));
  return constant(e.arg(2)) || common_factor(e.arg(2)) == first ? first : 1;
}

Expr without_factor(const Expr& e, double factor) {
  if (constant(e)) return as_power_of_two(product_of(e, 1 / factor));
  if (e.op() == Op::kMul) return e.arg(constant(e.arg(0)) ? 1 : 0);
  return select(e.arg(0), without_factor(e.arg(1), factor), without_factor(e.arg(2), factor));
}

Expr scaled(const Expr& e, double factor) {
  switch (e.op()) {
    case Op::kFloatImm:
      return product_of(e, factor);
    case Op::kMul:
      if (constant(e.arg(1))) return e.arg(0) * scaled(e.arg(1), factor);
      if (constant(e.arg(0))) return scaled(e.arg(0), factor) * e.arg(1);
      break;
    case Op::kSelect:
      return select(e.arg(0), scaled(e.arg(1), factor), scaled(e.arg(2), factor));
    case Op::kAdd:
    case Op::kSub: {
      const Expr a = scaled(e.arg(0), factor), b = scaled(e.arg(1), factor);
      return e.op() == Op::kAdd ? a + b : a - b;
    }
    default:
      break;
  }
  return e * float_imm(factor, e.type());
}

}  // namespace tw
