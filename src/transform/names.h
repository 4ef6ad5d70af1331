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

}  // namespace tw::transform
