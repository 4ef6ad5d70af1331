#include "transform/layout/layout_costs.h"

#include "support/join.h"
#include "support/math.h"

namespace tw::transform {

cost::SpatialProblem LayoutCosts::problem_of(const graph::Node& node) const {
  const TensorType& x = graph_.value(node.inputs[0]).type;
  const TensorType& y = graph_.value(node.outputs[0]).type;
  const auto points = [](const Shape& s) { return num_elements(Shape(s.begin() + 2, s.end())); };
  cost::SpatialProblem p;
  p.batch = y.shape[0];
  p.lanes = std::max(1, target_.lanes(y.type));
  p.points = points(y.shape);
  p.width = y.shape.back();
  p.plane = points(x.shape);
  p.in_bytes = static_cast<double>(num_elements(x.shape) * x.type.bytes());
  p.out_bytes = static_cast<double>(num_elements(y.shape) * y.type.bytes());
  p.is_contraction = node.op.find("conv") != std::string::npos;
  p.is_winograd = node.op == "winograd_conv";
  const std::vector<int64_t> pads = node.ints_attr_or("pads", {});
  p.padded = !all_are(pads, 0);
  const int64_t padded_row = x.shape.back() + (pads.empty() ? 0 : pads[pads.size() / 2 - 1] + pads.back());
  p.short_rows = !target_.levels.empty() && padded_row * x.type.bytes() < target_.levels.front().line_bytes;
  const std::vector<int64_t> strides = node.ints_attr_or("strides", {});
  p.strided = !strides.empty() && strides.back() > 1;
  if (!p.is_contraction) {
    const std::vector<int64_t> kernel = node.ints_attr_or("kernel_shape", {p.plane});
    p.filter_positions = num_elements(kernel);
    p.groups = y.shape[1];
    return p;
  }
  const Shape& w = graph_.value(node.inputs[1]).type.shape;
  p.filter_positions =
      num_elements(Shape(w.end() - static_cast<std::ptrdiff_t>(x.shape.size() - 2), w.end()));  // of one phase
  p.groups = node.int_attr_or("group", 1);
  p.channels = std::max<int64_t>(1, x.shape[1] / p.groups);
  p.out_channels = std::max<int64_t>(1, y.shape[1] / p.groups);
  p.weight_bytes = static_cast<double>(num_elements(w) * x.type.bytes());
  p.pointwise = p.filter_positions == 1 && !p.padded && all_are(strides, 1);
  if (node.op == "conv_phases") describe_phases(node, w, p);
  return p;
}

// Neighbours in a row of the output belong to different phases: a vector spans the phases of one position.
void LayoutCosts::describe_phases(const graph::Node& node, const Shape& w, cost::SpatialProblem& p) const {
  const size_t rank = w.size() / 2 - 1;
  const Shape& x = graph_.value(node.inputs[0]).type.shape;
  const std::vector<int64_t>& starts = node.ints_attr("starts");
  const std::vector<int64_t>& counts = node.ints_attr("counts");
  size_t phase = 0;
  for (size_t d = 0; d < rank; ++d) {
    for (int64_t r = 0; r < w[2 + d]; ++r, ++phase) {
      const int64_t last =
          node.ints_attr("extents")[d] - 1 + starts[phase] + (counts[phase] - 1) * node.ints_attr("spacing")[d];
      p.padded = p.padded || (counts[phase] > 0 && (starts[phase] < 0 || last >= x[2 + d]));
    }
  }
  if (w[1 + rank] == 1) return;
  p.width = w[1 + rank];
  p.pointwise = false;
}

}  // namespace tw::transform
