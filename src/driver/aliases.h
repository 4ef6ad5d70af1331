// Values that need no storage of their own.
#pragma once
#include <map>

#include "graph/graph.h"

namespace tw::driver {

/// Groups whose output is stored in the place of their input: a view needs no step. Output value -> input value.
/// A view of an input or constant that leaves the graph is no alias, nor is one of two outputs on one storage.
std::map<graph::ValueId, graph::ValueId> find_aliases(const graph::Graph& graph);

}  // namespace tw::driver
