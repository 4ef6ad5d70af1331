// Reverse-mode differentiation of a graph: gradients are nodes of the same operators, so that everything behind this
// (passes, te, kernels) sees one graph (ADR 0035).
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "graph/op.h"

namespace tw::transform {

/// Appends to `graph` nodes that compute d loss / d v for each value v of `wanted`, in order: the sum over all paths
/// from v to the loss; zeros where there is none. Values of floats only; the graph has no groups. Nothing is appended
/// that no gradient needs.
/// Where a function jumps or bends, its operator's rule says what counts (docs/reference/gradients.md).
/// `loss` has one element. Throws UserError for a loss or a wanted value that has no gradient by its type, and
/// Unsupported naming all operators on the way whose gradient is refused.
std::vector<graph::ValueId> differentiate(graph::Graph& graph, const graph::OpTable& ops, graph::ValueId loss,
                                          std::span<const graph::ValueId> wanted);

/// Nodes from `first` on that lead to a reduction, and read nothing but values of nodes, constants and single numbers,
/// stand right behind the last node that they read; all others stay in order. So the sum of a gradient's squares stands
/// beside the gradient, and a group of both frees what it reads as early as the gradient alone does. What is large, or
/// reads states, too, would only be stored longer.
void place_early(graph::Graph& graph, const graph::OpTable& ops, size_t first);

}  // namespace tw::transform
