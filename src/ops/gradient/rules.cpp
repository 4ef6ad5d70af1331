#include "ops/gradient/rules.h"

#include <numeric>

namespace tw::ops {

double number_attr(const GradientCall& g, const std::string& key, double fallback) {
  if (!g.node().has_attr(key)) return static_cast<float>(fallback);
  const int64_t* whole = std::get_if<int64_t>(&g.node().attrs.at(key));
  return whole != nullptr ? static_cast<double>(*whole) : g.node().float_attr(key);
}

Term positions(const GradientCall& g, int64_t n, int64_t axis, size_t rank) {
  Ints numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return along(g.builder.integers(numbers), axis, rank);
}

Ints axes_from(int64_t first, size_t rank) {
  Ints axes(static_cast<int64_t>(rank) - first);
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Term spaced(const Term& x, int64_t axis, int64_t step) {
  if (step == 1 || x.shape()[axis] <= 1) return x;
  Shape split = x.shape();
  split.insert(split.begin() + axis + 1, 1);
  Ints pads(2 * split.size(), 0);
  pads[split.size() + static_cast<size_t>(axis) + 1] = step - 1;
  Shape joint = x.shape();
  joint[axis] *= step;
  return reshape(pad(reshape(x, split), pads), joint);
}

}  // namespace tw::ops
