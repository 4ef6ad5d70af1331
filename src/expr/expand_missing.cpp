#include "expr/expand.h"
#include "expr/math_builder.h"
#include "expr/scalar.h"

namespace tw {
namespace {

Expr expand_fma(const std::vector<Expr>& args) {
  const auto wide = [](const Expr& x) { return cast(DataType::f64(), x); };
  return cast(DataType::f32(), wide(args[0]) * wide(args[1]) + wide(args[2]));
}

// To nearest, ties to even, of magnitudes: from 2^23 (2^52) on the unit in the last place is 1.
Expr round_magnitude(const MathBuilder& m, const Expr& magnitude) {
  const Expr unit = m.number(m.is_f64() ? 0x1p52 : 0x1p23);
  return m.share(select(magnitude < unit, (magnitude + unit) - unit, magnitude));
}

Expr expand_rounding(const MathBuilder& m, Op op, const Expr& argument) {
  // ceil(x) = -floor(-x), with its signed zeros.
  const Expr x = m.share(op == Op::kCeil ? -argument : argument);
  const Expr magnitude = m.share(m.magnitude(x));
  const Expr nearest = round_magnitude(m, magnitude);
  if (op == Op::kRound) return m.flip_sign(nearest, x);
  if (op == Op::kTrunc) return m.flip_sign(select(magnitude < nearest, nearest - m.number(1), nearest), x);
  const Expr signed_nearest = m.share(m.flip_sign(nearest, x));
  const Expr floor = select(x < signed_nearest, signed_nearest - m.number(1), signed_nearest);
  return op == Op::kCeil ? -floor : floor;
}

}  // namespace

Expr split_fma(const Expr& e, const Share& share) {
  return rewrite_sharing(
      e, share, [](const Expr& x, const Share&) { return x.op() == Op::kFma ? x.arg(0) * x.arg(1) + x.arg(2) : x; });
}

Expr expand_missing(const Expr& e, const Instructions& has, const Share& share) {
  return rewrite_sharing(e, share, [&](const Expr& x, const Share& s) {
    const Usual any_operand;
    const MathBuilder m(x.type(), s, any_operand);
    if (x.op() == Op::kFma && !has.fma && !m.is_f64()) return expand_fma(x->args);
    return is_rounding(x.op()) && !has.rounding && x.type().is_float() ? expand_rounding(m, x.op(), x.arg(0)) : x;
  });
}

}  // namespace tw
