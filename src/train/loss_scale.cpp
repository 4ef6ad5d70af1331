#include "train/loss_scale.h"

namespace tw::train {
namespace {

using graph::Term;

constexpr double kLeast = 0x1p-24, kMost = 0x1p24;

}  // namespace

NextScale next_scale(const LossScale& options, const Term& scale, const Term& good_steps, const Term& good) {
  const Term count = good_steps + 1;
  const Term grows = graph::compare("greater_equal", count, static_cast<double>(options.good_steps));
  const Term larger = graph::emit("min", {scale * 2, scale.number(kMost)});
  const Term smaller = graph::emit("max", {scale * 0.5, scale.number(kLeast)});
  return {graph::where(good, graph::where(grows, larger, scale), smaller),
          graph::where(graph::emit("and", {good, graph::emit("not", {grows})}), count, 0)};
}

}  // namespace tw::train
