// softmax: y (dy - sum(dy y)); log_softmax: dy - exp(y) sum(dy); sums along the axis, in f32 for f16 and bf16.
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

Terms of_softmax(const GradientCall& g) {
  const Ints axes{axis_of(g.call, -1)};
  const Term dy = widened(g.dy()), y = widened(g.y());
  return {cast(y * (dy - sum(dy * y, axes)), g.x().element())};
}

Terms of_log_softmax(const GradientCall& g) {
  const Ints axes{axis_of(g.call, -1)};
  const Term dy = widened(g.dy()), y = widened(g.y());
  return {cast(dy - emit("exp", {y}) * sum(dy, axes), g.x().element())};
}

}  // namespace

std::vector<GradientRow> softmax_gradients() {
  return {by_rule("softmax", of_softmax), by_rule("log_softmax", of_log_softmax),
          is_zero("hardmax", "constant between its jumps")};
}

}  // namespace tw::ops
