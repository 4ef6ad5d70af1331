// What every pass calls by name.
#pragma once
#include "graph/graph.h"

namespace tw::transform {

using graph::Attrs;
using graph::Graph;
using graph::kAbsent;
using graph::Node;
using graph::ValueId;
using Ints = std::vector<int64_t>;

/// Attribute of nodes that compute a value once more, for some of its readers: a number, so that no pass makes them one
/// with the first ones, or with those of other readers.
inline constexpr const char* kAgain = "again";

}  // namespace tw::transform
