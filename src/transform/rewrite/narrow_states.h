// States that are stored in 16 bits.
#pragma once
#include <vector>

#include "graph/op.h"
#include "transform/in_place.h"

namespace tw::transform {

/// States of f32 that only take rows, as keys and values of a cache do, as states of `dtype`, f16 or bf16: like other
/// values they are stored in it, and each element is rounded once, when its row comes. States of `dtype` that the model
/// updates as f32 between two casts are updated as they are. States that are computed from
/// what they were stay f32: they would be rounded in each run.
graph::Graph narrow_states(const graph::Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& states,
                           DataType dtype);

}  // namespace tw::transform
