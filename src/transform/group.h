// Groups: sets of nodes that become one node with a graph of its own.
#pragma once
#include <string>
#include <vector>

#include "transform/names.h"

namespace tw::transform {

/// The graph with each cluster of node indices (ascending, disjoint) as one group node, in topological order; other
/// nodes stay. A group's inputs are the values it reads from outside, constants too, in order of first use; its outputs
/// are those read outside. The values inside keep names, types and layouts. InternalError when two groups wait for each
/// other.
graph::Graph form_groups(const graph::Graph& graph, const std::vector<std::vector<int>>& clusters);

/// The same where nodes may be groups: those of one cluster become one group.
graph::Graph merge_groups(const graph::Graph& graph, const std::vector<std::vector<int>>& clusters);

/// Name of a group for messages: the names of its nodes in order, joined by '+', the first few of them.
std::string group_name(const graph::Graph& graph, const std::vector<int>& cluster);

}  // namespace tw::transform
