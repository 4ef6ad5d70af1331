// Which nodes pass fuse would put into one group.
#pragma once
#include <vector>

#include "transform/pass.h"

namespace tw::transform {

/// By node of `graph`: the number of its group, -1 for what stands alone whatever is around it.
std::vector<int> grouping(const graph::Graph& graph, const TransformContext& context);

}  // namespace tw::transform
