// What the layouts of a graph's values cost: what the closed form (cost/layouts.h) asks of a node or value.
#pragma once
#include "cost/layouts.h"
#include "graph/graph.h"

namespace tw::transform {

class LayoutCosts {
 public:
  LayoutCosts(const graph::Graph& graph, const TargetInfo& target) : graph_(graph), target_(target) {}

  /// A copy of the value to the other order.
  double conversion_ns(graph::ValueId id) const {
    return cost::conversion_ns(static_cast<double>(graph_.value(id).type.bytes()), target_);
  }
  /// Of a convolution or pooling.
  cost::OrderCosts spatial_ns(const graph::Node& node) const { return cost::spatial_ns(problem_of(node), target_); }

 private:
  cost::SpatialProblem problem_of(const graph::Node& node) const;
  void describe_phases(const graph::Node& node, const Shape& w, cost::SpatialProblem& p) const;

  const graph::Graph& graph_;
  const TargetInfo& target_;
};

}  // namespace tw::transform
