#include "ops/gradient/rules.h"

namespace tw::ops {

double number_attr(const GradientCall& g, const std::string& key, double fallback) {
  if (!g.node().has_attr(key)) return static_cast<float>(fallback);
  const int64_t* whole = std::get_if<int64_t>(&g.node().attrs.at(key));
  return whole != nullptr ? static_cast<double>(*whole) : g.node().float_attr(key);
}

Term positions(const GradientCall& g, int64_t n, int64_t axis, size_t rank) {
  return along(g.builder.integers(sequence(n)), axis, rank);
}

Ints axes_from(int64_t first, size_t rank) { return sequence(static_cast<int64_t>(rank) - first, first); }

Term spaced(const Term& x, const Ints& steps) {
  Shape split, joint;
  Ints behind;
  for (size_t d = 0; d < x.rank(); ++d) {
    const int64_t extent = x.shape()[d], step = extent > 1 ? steps[d] : 1;
    joint.push_back(extent * step);
    split.push_back(extent), behind.push_back(0);
    if (step > 1) split.push_back(1), behind.push_back(step - 1);
  }
  return reshape(pad(reshape(x, split), joined(Ints(split.size(), 0), behind)), joint);
}

}  // namespace tw::ops
