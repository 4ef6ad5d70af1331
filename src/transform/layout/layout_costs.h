// What layouts cost, in closed form: times of contractions and poolings for each order of their input and output, and
// of copies between the two orders, row-major and channels last. In ns of one compute unit, for comparison among each
// other.
#pragma once
#include <array>

#include "core/target_info.h"
#include "graph/graph.h"

namespace tw::transform {

class LayoutCosts {
 public:
  LayoutCosts(const graph::Graph& graph, const TargetInfo& target) : graph_(graph), target_(target) {}

  /// A copy of the value to the other order: its bytes read and written at the bandwidth of the level that holds both,
  /// and a step of the runtime.
  double conversion_ns(graph::ValueId id) const;

  /// Of a convolution or pooling, [order of input 0][order of the output]; 1 is channels last.
  using OrderCosts = std::array<std::array<double, 2>, 2>;
  OrderCosts spatial_ns(const graph::Node& node) const;

 private:
  struct ConvShape;
  ConvShape conv_shape_of(const graph::Node& node) const;
  void describe_phases(const graph::Node& node, const Shape& w, ConvShape& p) const;
  double dense_ns(const ConvShape& p, int in, int out) const;
  double depthwise_ns(const ConvShape& p, int out) const;
  const MemoryLevel* level_of(double bytes) const;
  double copy_ns(double bytes) const;
  double transpose_ns(double bytes) const;
  static bool holds_lines(const MemoryLevel& level, int64_t stride, int64_t count);
  double scattered_rows_ns(const ConvShape& p) const;
  double gathered_from_planes_ns(const ConvShape& p) const;

  const graph::Graph& graph_;
  const TargetInfo& target_;
};

}  // namespace tw::transform
