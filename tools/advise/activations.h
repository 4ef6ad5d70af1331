// The activations of a model: in one node or in several, as exporters write them.
#pragma once
#include <string>
#include <vector>

#include "transform/pass.h"

namespace tw::advise {

/// `result` is an activation of `source`, and of nothing else that is not constant.
struct Activation {
  std::string op;  // of ops/unary.cpp
  graph::ValueId source = graph::kAbsent;
  graph::ValueId result = graph::kAbsent;
  /// The contractions whose sums reach it through additions, scales and normalizations alone: whose epilogue it is.
  std::vector<int> contractions = {};
};

/// Those behind a contraction, in the order of the nodes. What several nodes compute is what graph pass `canonicalize`
/// makes of them.
std::vector<Activation> find_activations(const graph::Graph& model, const transform::TransformContext& context);

}  // namespace tw::advise
