// The order of nodes that were appended to a graph.
#pragma once
#include <cstddef>

#include "graph/op.h"

namespace tw::transform {

/// Nodes from `first` on that lead to a reduction, and read nothing but values of nodes, constants and single numbers,
/// stand right behind the last node that they read; all others stay in order. So the sum of a gradient's squares stands
/// beside the gradient, and a group of both frees what it reads as early as the gradient alone does. What is large, or
/// reads states, too, would only be stored longer.
void place_early(graph::Graph& graph, const graph::OpTable& ops, size_t first);

}  // namespace tw::transform
