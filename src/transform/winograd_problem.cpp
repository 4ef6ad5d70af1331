#include "transform/winograd_problem.h"

#include "ops/window.h"

namespace tw::transform {

std::optional<cost::ConvProblem> winograd_problem(const Editor& editor, const Node& node, const TargetInfo& target) {
  const graph::Value& weights = editor.value(node.inputs[1]);
  const Shape& w = weights.type.shape;
  const size_t rank = w.size() - 2;
  if (weights.type.type != DataType::f32() || node.int_attr_or("group", 1) != 1) return std::nullopt;
  if (rank < 2 || rank > 3 || w[rank] != 3 || w[rank + 1] != 3) return std::nullopt;
  const ops::Window window = ops::window_of(graph::make_call(editor.graph(), node), Shape(w.begin() + 2, w.end()));
  for (size_t d = rank - 2; d < rank; ++d) {
    if (window.strides[d] != 1 || window.dilations[d] != 1) return std::nullopt;
  }
  cost::ConvProblem p{.batch = editor.type(node.inputs[0]).shape[0], .channels = w[1], .out_channels = w[0]};
  p.high = window.out[rank - 2];
  p.wide = window.out[rank - 1];
  p.computed_weights = !weights.is_constant();
  if (rank == 3) {
    p.depth = std::max(window.highest(0), window.in[0] - 1) - std::min<int64_t>(0, window.lowest(0)) + 1;
    p.out_depth = window.out[0];
    p.kernel_depth = w[2];
  }
  const bool empty = p.batch == 0 || p.high == 0 || p.wide == 0 || p.out_depth == 0;
  const bool flat = rank == 3 && (p.depth == 1) != (p.out_depth == 1);
  constexpr int64_t kMinChannels = 8;  // fewer are not worth it
  const int64_t min = std::max<int64_t>(kMinChannels, target.lanes(DataType::f32()));
  const bool narrow = p.channels < min || p.out_channels < min;
  return empty || flat || narrow ? std::nullopt : std::optional(p);
}

}  // namespace tw::transform
