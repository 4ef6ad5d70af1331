// Reductions. max and min give equal extremes equal shares; prod is the product of the other elements, zeros among
// them; l2 is 0 where the norm is 0. A variance is centred by a mean of its own, whose changes do not change it:
//   dx = (dmean + 2 (x - mean) dvariance) / count
#include "ops/gradient/rules.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

// What rules of reductions need: the reduced axes, and results with these as extents 1.
struct Reduced {
  explicit Reduced(const GradientCall& g)
      : axes(reduced_axes(g.call, g.x().rank())), kept(kept_shape(g.x().shape(), axes)), dy(reshape(g.dy(), kept)) {}
  Ints axes;
  Shape kept;
  Term dy;
};

Term spread(const GradientCall& g, const Term& dx) { return expand(dx, g.x().shape()); }

Terms of_sum(const GradientCall& g) { return {spread(g, Reduced(g).dy)}; }

Terms of_mean(const GradientCall& g) {
  const Reduced r(g);
  return {spread(g, r.dy / static_cast<double>(reduced_count(g.x().shape(), r.axes)))};
}

Terms of_mean_variance(const GradientCall& g) {
  const Ints axes = reduced_axes(g.call, g.x().rank());
  const Shape kept = kept_shape(g.x().shape(), axes);
  const auto share = [&](size_t k, double factor) {
    const auto count = static_cast<double>(reduced_count(g.x().shape(), axes));
    return reshape(widened(g.dy(k)), kept) * (factor / count);
  };
  Term dx;
  if (g.dy(0)) dx = expand(share(0, 1), g.x().shape());
  if (g.dy(1)) dx = sum_of(dx, (widened(g.x()) - reshape(widened(g.y(0)), kept)) * share(1, 2));
  return {dx ? cast(dx, g.x().element()) : dx};
}

Terms of_extreme(const GradientCall& g) {
  const Reduced r(g);
  const Term hit = emit("equal", {g.x(), reshape(g.y(), r.kept)});
  const Term count = sum(cast(hit, widened(g.x()).element()), r.axes);
  return {where(hit, r.dy / cast(count, g.x().element()), 0)};
}

// With zeros left out, p is the product: an element gets p / x where no zero is, p where it is the only zero.
Terms of_prod(const GradientCall& g) {
  const Reduced r(g);
  const Term x = g.x();
  const Term zero = compare("equal", x, 0);
  const Term safe = where(zero, 1, x);
  const Term count = sum(cast(zero, DataType::i64()), r.axes);
  const Term p = r.dy * emit("reduce_prod", {safe}, {{"axes", r.axes}, {"keepdims", int64_t{1}}});
  const Term alone = emit("and", {zero, compare("equal", count, 1)});
  return {where(alone, p, where(compare("equal", count, 0), p / safe, 0))};
}

Terms of_l1(const GradientCall& g) { return {Reduced(g).dy * emit("sign", {g.x()})}; }
Terms of_squares(const GradientCall& g) { return {Reduced(g).dy * 2 * g.x()}; }

Terms of_l2(const GradientCall& g) {
  const Reduced r(g);
  const Term y = reshape(g.y(), r.kept);
  return {g.x() * where(compare("equal", y, 0), 0, r.dy / y)};
}

Terms of_log_sum(const GradientCall& g) {
  const Reduced r(g);
  return {spread(g, r.dy * emit("exp", {-reshape(g.y(), r.kept)}))};
}

Terms of_log_sum_exp(const GradientCall& g) {
  const Reduced r(g);
  const Term y = reshape(g.y(), r.kept);
  const Term shift = where(emit("is_inf", {y}), 0, y);  // -inf - -inf is no number
  return {r.dy * emit("exp", {g.x() - shift})};
}

}  // namespace

std::vector<GradientRow> reduce_gradients() {
  return {by_rule("reduce_sum", of_sum),
          by_rule("reduce_mean", of_mean),
          by_rule("mean_variance", of_mean_variance),
          by_rule("reduce_max", of_extreme),
          by_rule("reduce_min", of_extreme),
          by_rule("reduce_prod", of_prod),
          by_rule("reduce_l1", of_l1),
          by_rule("reduce_sum_square", of_squares),
          by_rule("reduce_l2", of_l2),
          by_rule("reduce_log_sum", of_log_sum),
          by_rule("reduce_log_sum_exp", of_log_sum_exp),
          is_zero("arg_max", "its result is no float"),
          is_zero("arg_min", "its result is no float")};
}

}  // namespace tw::ops
