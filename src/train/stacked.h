// Parameters whose products share an activation lie in one state, so that these products are one in both passes.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "driver/options.h"
#include "graph/op.h"
#include "train/options.h"

namespace tw::train {

/// A parameter of which others are parts, which keep their names for whoever sees them.
struct ParameterStack {
  std::string name;
  std::vector<driver::StatePair::Part> parts;
};

struct StackedGraph {
  graph::Graph graph;
  std::vector<ParameterStack> stacks;
};

/// The weights and biases of x W1 + b1, x W2 + b2, .. become rows of one [all columns, rows of W], and elements of one
/// bias: x W becomes one product, and so do the gradients of x and of W (Ivanov et al., Data Movement Is All You Need,
/// 2021, section IV-D). Of the constants called `trained`; those whose update differs stay apart, as all do where it
/// looks at whole parameters (LAMB).
StackedGraph stack_parameters(const graph::Graph& graph, const graph::OpTable& ops,
                              const std::set<std::string>& trained, const TrainOptions& options);

}  // namespace tw::train
