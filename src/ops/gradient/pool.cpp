// Poolings give each element what the windows that read it pass on (operator unpool). max_pool's windows pass all to
// their first largest element; avg_pool's an equal share, lp_pool's dy y^(1 - p) |x|^(p - 1) sign(x).
#include "ops/gradient/rules.h"
#include "ops/window.h"
#include "support/math.h"

namespace tw::ops {
namespace {

bool is_global(const GradientCall& g) { return g.node().op.starts_with("global_"); }

// The windows' values back to the elements of x: those at `places`, or all. Strides go with whole strides of elements,
// which are cut, and without dilations: else the windows in between are there and pass zeros.
Term unpooled(const GradientCall& g, Term values, Term places = {}) {
  if (is_global(g)) return expand(values, g.x().shape());
  Window w = pool_window(g.call);
  Shape extents = w.in;
  Ints apart(2, 1);
  for (size_t d = 0; d < w.rank(); ++d) {
    apart.push_back(w.dilations[d] > 1 ? std::exchange(w.strides[d], 1) : 1);
    extents[d] = ceil_div(w.in[d], w.strides[d]) * w.strides[d];
  }
  values = spaced(values, apart);
  if (places) places = spaced(places, apart);
  Term dx = emit("unpool", places ? Terms{values, places} : Terms{values},
                 {{"extents", extents},
                  {"kernel_shape", w.kernel},
                  {"strides", w.strides},
                  {"dilations", w.dilations},
                  {"pads", w.pad_begin}});
  for (size_t d = 0; d < w.rank(); ++d) dx = part(dx, static_cast<int64_t>(2 + d), 0, w.in[d]);
  return dx;
}

Terms of_max(const GradientCall& g) {
  if (!g.dy()) return {Term{}};
  graph::Attrs attrs = g.node().attrs;
  attrs.erase("storage_order"), attrs.erase("outputs");
  return {unpooled(g, g.dy(), emit("max_places", {g.x(), g.y()}, attrs))};
}

Terms of_global_max(const GradientCall& g) {
  const Shape shape = g.x().shape();
  const int64_t area = num_elements(Shape(shape.begin() + 2, shape.end()));
  const Term flat = reshape(g.x(), {shape[0], shape[1], area});
  const Term first = emit("arg_max", {flat}, {{"axis", int64_t{2}}});
  const Term dy = reshape(g.dy(), {shape[0], shape[1], 1});
  return {reshape(where(emit("equal", {first, positions(g, area, 2, 3)}), dy, 0), shape)};
}

// How many elements the windows along axis d average over.
Ints counts(const GradientCall& g, const Window& w, size_t d) {
  const bool padding = g.node().int_attr_or("count_include_pad", 0) != 0;
  const int64_t low = padding ? -w.pad_begin[d] : 0, high = w.in[d] + (padding ? w.pad_end[d] : 0);
  Ints result(w.out[d], 0);
  for (int64_t o = 0; o < w.out[d]; ++o) {
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      const int64_t p = o * w.strides[d] - w.pad_begin[d] + k * w.dilations[d];
      if (p >= low && p < high) ++result[o];
    }
  }
  return result;
}

Terms of_average(const GradientCall& g) {
  const Window window = pool_window(g.call);
  Term share = g.dy();
  double fixed = 1;
  for (size_t d = 0; d < window.rank(); ++d) {
    const Ints here = counts(g, window, d);
    if (all_are(here, here.front())) {
      fixed *= static_cast<double>(here.front());
      continue;
    }
    graph::RefTensor numbers = graph::RefTensor::zeros({share.element(), {std::ssize(here)}});
    for (size_t o = 0; o < here.size(); ++o) numbers.floats[o] = static_cast<double>(here[o]);
    share = share / along(g.builder.constant(numbers), static_cast<int64_t>(2 + d), share.rank());
  }
  return {unpooled(g, fixed == 1 ? share : share / fixed)};
}

Terms of_lp(const GradientCall& g) {
  const auto p = static_cast<double>(g.node().int_attr_or("p", 2));
  const Term x = g.x(), y = g.y();
  if (p == 1) return {unpooled(g, g.dy()) * emit("sign", {x})};
  const Term scaled = p == 2 ? g.dy() / y : g.dy() * emit("pow", {y, y.number(1 - p)});
  const Term passed = unpooled(g, where(compare("equal", y, 0), 0, scaled));
  if (p == 2) return {passed * x};
  return {passed * emit("pow", {emit("abs", {x}), x.number(p - 1)}) * emit("sign", {x})};
}

}  // namespace

std::vector<GradientRow> pool_gradients() {
  return {by_rule("max_pool", of_max),
          by_rule("avg_pool", of_average),
          by_rule("lp_pool", of_lp),
          by_rule("global_max_pool", of_global_max),
          by_rule("global_avg_pool", of_average),
          by_rule("global_lp_pool", of_lp),
          is_refused("unpool", "it is a pooling's gradient, and second ones are not supported"),
          is_zero("max_places", "places are integers")};
}

}  // namespace tw::ops
