#include "transform/passes.h"

namespace tw::transform {

graph::Graph eliminate_dead_code(const graph::Graph& graph, const TransformContext&) { return graph::compact(graph); }

}  // namespace tw::transform
