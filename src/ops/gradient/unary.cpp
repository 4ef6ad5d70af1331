// Element-wise operators of one input: dx = dy * f'(x), by x or by y, whichever costs less. At a bend or a jump the
// derivative is that of one side, which torch takes, too: of abs and sign 0 at 0, of relu and its like that of the
// negative side, of clip 0 on its bounds.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Term sigmoid(const Term& x) { return emit("sigmoid", {x}); }

// dy where the condition holds, else `slope` times it.
Term either(const Term& condition, const Term& dy, double slope) {
  return slope == 0 ? where(condition, dy, 0) : where(condition, dy, dy * slope);
}
Term positive(const Term& x) { return compare("greater", x, 0); }
// Whether x is on the positive side, by y where that has x's sign: behind a contraction y is what is stored.
Term positive(const GradientCall& g, double slope) { return positive(slope > 0 ? g.y() : g.x()); }

// x Phi(x): Phi(x) + x phi(x).
Terms gelu(const GradientCall& g) {
  const Term x = g.x();
  const Term area = (emit("erf", {x * (std::numbers::sqrt2 / 2)}) + 1) * 0.5;
  const Term density = emit("exp", {square(x) * -0.5}) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return {g.dy() * (area + x * density)};
}

// x s(v), v = scale * (x + 0.044715 x^3): s + x s (1 - s) v'.
Terms gelu_tanh(const GradientCall& g) {
  const double scale = 2 * std::sqrt(2 / std::numbers::pi);
  const Term x = g.x();
  const Term cubic = square(x) * (0.044715 * scale);
  const Term s = sigmoid(x * (cubic + scale));
  const Term slope = cubic * 3 + scale;
  return {g.dy() * (s + x * slope * s * (1 - s))};
}

// x tanh(p), p = softplus(x): t + x (1 - t^2) sigmoid(x).
Terms mish(const GradientCall& g) {
  const Term x = g.x();
  const Term t = emit("tanh", {emit("softplus", {x})});
  return {g.dy() * (t + x * (1 - square(t)) * sigmoid(x))};
}

// x s(a x): s + a x s (1 - s).
Terms silu(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 1);
  const Term ax = alpha == 1 ? g.x() : g.x() * alpha;
  const Term s = sigmoid(ax);
  return {g.dy() * s * (ax * (1 - s) + 1)};
}

Term between(const Term& x, double low, double high) {
  Term inside;
  if (low != -kInf) inside = compare("greater", x, low);
  if (high == kInf) return inside;
  const Term below = compare("less", x, high);
  return inside ? emit("and", {inside, below}) : below;
}

// x (x / 6 + 1/2) between -3 and 3: x / 3 + 1/2.
Terms hard_swish(const GradientCall& g) {
  const Term x = g.x();
  const Term dy = g.dy();
  const Term middle = dy * (x * (1.0 / 3) + 0.5);
  return {where(compare("less_equal", x, -3), 0, where(compare("less", x, 3), middle, dy))};
}

Terms hard_sigmoid(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 0.2), beta = number_attr(g, "beta", 0.5);
  const Term line = g.x() * alpha + beta;
  const Term inside = emit("and", {positive(line), compare("less", line, 1)});
  return {where(inside, g.dy() * alpha, 0)};
}

// Where x <= 0: y + alpha (elu), exp(x / alpha) = y / alpha + 1 (celu), y + gamma * alpha (selu).
Terms elu(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 1);
  return {where(positive(g, alpha), g.dy(), g.dy() * (g.y() + alpha))};
}
Terms celu(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 1);
  return {where(positive(g, alpha), g.dy(), g.dy() * (g.y() / alpha + 1))};
}
Terms selu(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 1.67326319217681884765625);
  const double gamma = number_attr(g, "gamma", 1.05070102214813232421875);
  const Term right = positive(g, gamma > 0 ? alpha : 0);
  return {where(right, g.dy() * gamma, g.dy() * (g.y() + gamma * alpha))};
}

Terms leaky_relu(const GradientCall& g) { return {either(positive(g.x()), g.dy(), number_attr(g, "alpha", 0.01))}; }
Terms thresholded_relu(const GradientCall& g) {
  const double alpha = number_attr(g, "alpha", 1);
  return {where(compare("greater", alpha >= 0 ? g.y() : g.x(), alpha), g.dy(), 0)};
}
Terms shrink(const GradientCall& g) {
  return {where(compare("greater", emit("abs", {g.x()}), number_attr(g, "lambd", 0.5)), g.dy(), 0)};
}
// Sixteenths up to 8: what floats of all types hold.
bool is_exact(double bound) {
  return std::isinf(bound) || (std::fabs(bound) <= 8 && std::rint(bound * 16) == bound * 16);
}

// y is x between the bounds, and only there, unless these are rounded.
Terms clip(const GradientCall& g) {
  const double low = number_attr(g, "min", -kInf), high = number_attr(g, "max", kInf);
  const Term inside = between(is_exact(low) && is_exact(high) ? g.y() : g.x(), low, high);
  return {inside ? where(inside, g.dy(), 0) : g.dy()};
}

constexpr std::string_view kFlat = "constant between its jumps", kNoFloat = "its result is no float";

}  // namespace

std::vector<GradientRow> unary_gradients() {
  using G = const GradientCall&;
  return {
      by_rule("exp", [](G g) { return Terms{g.dy() * g.y()}; }),
      by_rule("log", [](G g) { return Terms{g.dy() / g.x()}; }),
      by_rule("sqrt", [](G g) { return Terms{g.dy() * 0.5 / g.y()}; }),
      by_rule("sin", [](G g) { return Terms{g.dy() * emit("cos", {g.x()})}; }),
      by_rule("cos", [](G g) { return Terms{-(g.dy() * emit("sin", {g.x()}))}; }),
      by_rule("tan", [](G g) { return Terms{g.dy() * (square(g.y()) + 1)}; }),
      by_rule("asin", [](G g) { return Terms{g.dy() / emit("sqrt", {1 - square(g.x())})}; }),
      by_rule("acos", [](G g) { return Terms{-(g.dy() / emit("sqrt", {1 - square(g.x())}))}; }),
      by_rule("atan", [](G g) { return Terms{g.dy() / (square(g.x()) + 1)}; }),
      by_rule("sinh", [](G g) { return Terms{g.dy() * emit("cosh", {g.x()})}; }),
      by_rule("cosh", [](G g) { return Terms{g.dy() * emit("sinh", {g.x()})}; }),
      by_rule("asinh", [](G g) { return Terms{g.dy() / emit("sqrt", {square(g.x()) + 1})}; }),
      by_rule("acosh", [](G g) { return Terms{g.dy() / emit("sqrt", {square(g.x()) - 1})}; }),
      by_rule("atanh", [](G g) { return Terms{g.dy() / (1 - square(g.x()))}; }),
      by_rule("erf",
              [](G g) { return Terms{g.dy() * (emit("exp", {-square(g.x())}) * (2 * std::numbers::inv_sqrtpi))}; }),
      by_rule("tanh", [](G g) { return Terms{g.dy() * (1 - square(g.y()))}; }),
      by_rule("sigmoid", [](G g) { return Terms{g.dy() * (g.y() * (1 - g.y()))}; }),
      by_rule("softplus", [](G g) { return Terms{g.dy() * sigmoid(g.x())}; }),
      by_rule("reciprocal", [](G g) { return Terms{-(g.dy() * square(g.y()))}; }),
      by_rule("softsign", [](G g) { return Terms{g.dy() / square(emit("abs", {g.x()}) + 1)}; }),
      by_rule("gelu", gelu),
      by_rule("gelu_tanh", gelu_tanh),
      by_rule("mish", mish),
      by_rule("silu", silu),
      by_rule("hard_swish", hard_swish),
      by_rule("hard_sigmoid", hard_sigmoid),
      by_rule("elu", elu),
      by_rule("celu", celu),
      by_rule("selu", selu),
      by_rule("leaky_relu", leaky_relu),
      by_rule("thresholded_relu", thresholded_relu),
      by_rule("shrink", shrink),
      by_rule("clip", clip),
      by_rule("relu", [](G g) { return Terms{where(positive(g.y()), g.dy(), 0)}; }),
      by_rule("neg", [](G g) { return Terms{-g.dy()}; }),
      by_rule("abs", [](G g) { return Terms{g.dy() * emit("sign", {g.x()})}; }),
      by_rule("nan_to_zero", [](G g) { return Terms{where(emit("is_nan", {g.x()}), 0, g.dy())}; }),
      by_rule("identity", [](G g) { return Terms{g.dy()}; }),
      is_zero("floor", kFlat),
      is_zero("ceil", kFlat),
      is_zero("round", kFlat),
      is_zero("sign", kFlat),
      is_zero("is_nan", kNoFloat),
      is_zero("is_inf", kNoFloat),
      is_zero("not", kNoFloat),
      is_zero("bitwise_not", kNoFloat),
  };
}

}  // namespace tw::ops
