#include "expr/scaled.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw {

Expr scaled(const Expr& e, double factor) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto constant = [](const Expr& x) { return x.op() == Op::kFloatImm; };
  switch (e.op()) {
    case Op::kFloatImm: {
      const double product = e->number * factor;
      const bool finite = std::abs(e->number) <= kMost;
      return float_imm(finite ? std::clamp(product, -kMost, kMost) : product, e.type());
    }
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
