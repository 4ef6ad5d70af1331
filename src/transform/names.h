// What every pass calls by name.
#pragma once
#include "graph/graph.h"

namespace tw::transform {

using graph::Graph;
using graph::kAbsent;
using graph::Node;
using graph::ValueId;

}  // namespace tw::transform
