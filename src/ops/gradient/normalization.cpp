// Normalizations: y = n s + b with n = (x - mean) r, r = 1 / sqrt(var + epsilon), over some axes. With h = dy s,
//   dx = r (h - mean(h) - n mean(h n)),  ds = sum(dy n),  db = sum(dy)
// (rms_norm has no mean: r (h - n mean(h n))). Statistics are computed again from x, in f32 for f16 and bf16, but for
// those that layer_norm returns. batch_norm's are inputs with gradients of their own, so that its training form (the
// batch's statistics computed before it) needs no rule.
#include "ops/gradient/rules.h"
#include "ops/reduce_te.h"

namespace tw::ops {
namespace {

double epsilon_of(const GradientCall& g) { return number_attr(g, "epsilon", 1e-5); }

Term reciprocal(const Term& x) { return emit("reciprocal", {x}); }
Term inverse_root(const Term& x) { return reciprocal(emit("sqrt", {x})); }

// x over `axes`: what it is centred by, and 1 / its deviation.
struct Normalized {
  Term centred, inverse;
  Term values() const { return centred * inverse; }
};

Normalized normalized(const Term& x, const Ints& axes, double epsilon) {
  const Term centred = x - mean(x, axes);
  return {centred, inverse_root(mean(square(centred), axes) + epsilon)};
}

// r (h - mean(h) - n mean(h n)).
Term through_statistics(const Term& h, const Term& n, const Term& r, const Ints& axes) {
  return r * (h - mean(h, axes) - n * mean(h * n, axes));
}

Terms batch_norm(const GradientCall& g) {
  const size_t rank = g.x().rank();
  const DataType type = widened(g.x()).element();
  const auto channel = [&](const Term& v) { return along(cast(v, type), 1, rank); };
  const auto own = [&](const Term& dv, size_t k) { return cast(sum_to(dv, g.x(k).shape()), g.x(k).element()); };
  Ints others = axes_from(1, rank);
  others[0] = 0;
  const Term dy = widened(g.dy());
  const auto per_channel = [&](const Term& v) { return reshape(sum(v, others), g.x(1).shape()); };
  std::optional<Term> rate, rising, shift;  // 1 / deviation, sum(dy (x - mean)), sum(dy)
  const auto r = [&] {
    if (!rate) rate = inverse_root(cast(g.x(4), type) + epsilon_of(g));
    return *rate;
  };
  const auto weighted = [&] {
    if (!rising) rising = per_channel(dy * (widened(g.x()) - channel(g.x(3))));
    return *rising;
  };
  const auto total = [&] {
    if (!shift) shift = per_channel(dy);
    return *shift;
  };
  const auto factor = [&] { return cast(g.x(1), type) * r(); };
  Terms dx(5);
  if (g.wants(0)) dx[0] = cast(dy * channel(factor()), g.x().element());
  if (g.wants(1)) dx[1] = own(weighted() * r(), 1);
  if (g.wants(2)) dx[2] = own(total(), 2);
  if (g.wants(3)) dx[3] = own(-(factor() * total()), 3);
  if (g.wants(4)) dx[4] = own(factor() * square(r()) * weighted() * -0.5, 4);
  return dx;
}

// Groups of channels: x seen as [N, G, C / G, spatial..]; scale and bias of groups or of channels.
Terms group_norm(const GradientCall& g) {
  const Shape shape = g.x().shape();
  const int64_t channels = shape[1];
  const int64_t groups = g.node().op == "instance_norm" ? channels : g.node().int_attr("num_groups");
  const Shape view = joined(Shape{shape[0], groups, channels / groups}, std::span(shape).subspan(2));
  const Ints axes = axes_from(2, view.size());
  const Term dy = reshape(widened(g.dy()), view);
  const auto factor_shape = [&](const Term& v) {
    Shape seen(view.size(), 1);
    seen[1] = groups;
    seen[2] = v.shape()[0] == channels ? channels / groups : 1;
    return seen;
  };
  const auto own = [&](const Term& dv, size_t k) {
    return cast(reshape(sum_to(dv, factor_shape(g.x(k))), g.x(k).shape()), g.x(k).element());
  };
  Terms dx(3);
  if (g.wants(2)) dx[2] = own(dy, 2);
  if (!g.wants(0) && !g.wants(1)) return dx;
  const Normalized norm = normalized(reshape(widened(g.x()), view), axes, epsilon_of(g));
  const Term n = norm.values();
  if (g.wants(1)) dx[1] = own(dy * n, 1);
  if (!g.wants(0)) return dx;
  const Term h = dy * reshape(cast(g.x(1), dy.element()), factor_shape(g.x(1)));
  dx[0] = cast(reshape(through_statistics(h, n, norm.inverse, axes), shape), g.x().element());
  return dx;
}

Ints trailing_axes(const GradientCall& g) { return axes_from(axis_of(g.call, -1), g.x().rank()); }

// The gradients of scale and bias, where they are wanted.
Term of_factor(const GradientCall& g, size_t k, const Term& dv) {
  return cast(sum_to(dv, g.x(k).shape()), g.x(k).element());
}

// Results 1 and 2 are mean and r: dmean / n reaches every x, and dr as -r^2 n / count.
Term of_statistics(const GradientCall& g, const Term& n, const Term& r, double count) {
  Term dx;
  if (g.gradients.size() > 1) dx = g.dy(1) ? g.dy(1) / count : Term{};
  if (g.gradients.size() > 2 && g.dy(2)) dx = sum_of(dx, n * (g.dy(2) * square(r) * (-1 / count)));
  return dx;
}

Terms layer_norm(const GradientCall& g) {
  const Ints axes = trailing_axes(g);
  const double count = static_cast<double>(reduced_count(g.x().shape(), axes));
  const Term dy = g.dy() ? widened(g.dy()) : Term{};
  Terms dx(g.inputs.size());
  if (g.wants(2) && dy) dx[2] = of_factor(g, 2, dy);
  if (!g.wants(0) && !(g.wants(1) && dy)) return dx;
  const bool known = g.outputs.size() > 2;  // the operator has returned its statistics
  const Term x = widened(g.x());
  const Normalized norm = known ? Normalized{x - g.y(1), g.y(2)} : normalized(x, axes, epsilon_of(g));
  const Term n = norm.values();
  if (g.wants(1) && dy) dx[1] = of_factor(g, 1, dy * n);
  if (!g.wants(0)) return dx;
  Term all = of_statistics(g, n, norm.inverse, count);
  if (dy) all = sum_of(through_statistics(dy * cast(g.x(1), dy.element()), n, norm.inverse, axes), all);
  dx[0] = cast(expand(all, g.x().shape()), g.x().element());
  return dx;
}

Terms rms_norm(const GradientCall& g) {
  const Ints axes = trailing_axes(g);
  const Term x = widened(g.x()), dy = widened(g.dy());
  const Term r = inverse_root(mean(square(x), axes) + epsilon_of(g));
  const Term n = x * r;
  Terms dx(2);
  if (g.wants(1)) dx[1] = of_factor(g, 1, dy * n);
  if (!g.wants(0)) return dx;
  const Term h = dy * cast(g.x(1), dy.element());
  dx[0] = cast(r * (h - n * mean(h * n, axes)), g.x().element());
  return dx;
}

// y = (x - mean) / d, d = deviation + 1e-9: (dy - mean(dy) - (x - mean) mean(dy (x - mean)) / (deviation d)) / d.
Terms mean_variance_norm(const GradientCall& g) {
  const Ints axes = g.node().has_attr("axes") ? reduced_axes(g.call, g.x().rank()) : Ints{0, 2, 3};
  const Term x = widened(g.x()), dy = widened(g.dy());
  const Term centred = x - mean(x, axes);
  const Term deviation = emit("sqrt", {mean(square(centred), axes)});
  const Term d = deviation + 1e-9;
  const Term bend = mean(dy * centred, axes) / (deviation * d);
  const Term kept = where(compare("equal", deviation, 0), 0, bend);
  return {cast((dy - mean(dy, axes) - centred * kept) / d, g.x().element())};
}

// s[c] = sum of x[k]^2 over the channels k from c - before on, `size` of them that exist: a pool of sums along axis 1.
Term channel_sums(const Term& x, int64_t size, int64_t before) {
  const Shape shape = x.shape();
  const int64_t area = num_elements(Shape(shape.begin() + 2, shape.end()));
  const Ints pads{before, 0, size - 1 - before, 0};
  const Term pooled = emit("avg_pool", {reshape(x, {shape[0], 1, shape[1], area})},
                           {{"kernel_shape", Ints{size, 1}}, {"pads", pads}, {"count_include_pad", int64_t{1}}});
  return reshape(pooled, shape) * static_cast<double>(size);
}

// y = x b^-beta, b = bias + f s, f = alpha / size: dy b^-beta - 2 f beta x sums'(dy x b^(-beta - 1)), where sums' is
// over the windows that hold a channel.
Terms lrn(const GradientCall& g) {
  const int64_t size = g.node().int_attr("size"), before = (size - 1) / 2;
  const double f = number_attr(g, "alpha", 1e-4) / static_cast<double>(size), beta = number_attr(g, "beta", 0.75);
  const Term x = widened(g.x()), dy = widened(g.dy());
  const Term base = channel_sums(square(x), size, before) * f + number_attr(g, "bias", 1);
  const Term scaled = dy * emit("pow", {base, base.number(-beta)});
  const Term back = channel_sums(scaled * x / base, size, size - 1 - before);
  return {cast(scaled - x * back * (2 * f * beta), g.x().element())};
}

// y = x / norm: (dy - y' sum(dy y)) / norm with y' = y for p = 2, sign(x) for p = 1; 0 where the norm is 0.
Terms lp_norm(const GradientCall& g) {
  const Ints axes{axis_of(g.call, -1)};
  const bool squared = g.node().int_attr_or("p", 2) == 2;
  const Term x = widened(g.x()), dy = widened(g.dy()), y = widened(g.y());
  const Term norm = emit(squared ? "reduce_l2" : "reduce_l1", {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const Term dx = (dy - (squared ? y : emit("sign", {x})) * sum(dy * y, axes)) / norm;
  return {cast(where(compare("equal", norm, 0), 0, dx), g.x().element())};
}

}  // namespace

std::vector<GradientRow> normalization_gradients() {
  return {by_rule("batch_norm", batch_norm),
          by_rule("instance_norm", group_norm),
          by_rule("group_norm", group_norm),
          by_rule("layer_norm", layer_norm),
          by_rule("rms_norm", rms_norm),
          by_rule("mean_variance_norm", mean_variance_norm),
          by_rule("lrn", lrn),
          by_rule("lp_norm", lp_norm)};
}

}  // namespace tw::ops
