// The order of nodes that were appended to a graph.
#pragma once
#include <cstddef>

#include "graph/graph.h"

namespace tw::transform {

/// Nodes from `first` on stand right behind the last of what they read, those before it as they were. So what is made
/// of a gradient stands beside the gradient, and a group of both frees what it reads as early as the gradient alone
/// does.
void place_early(graph::Graph& graph, size_t first);

}  // namespace tw::transform
