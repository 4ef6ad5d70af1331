// States that grow by a few rows in every run, as states of one capacity: caches of attention that a model
// concatenates (append_states.cpp). States that are stored in 16 bits (narrow_states.cpp).
#pragma once
#include <vector>

#include "graph/op.h"
#include "transform/in_place.h"

namespace tw::transform {

/// Whether a run makes `after` of `before` and other rows: a concatenation, whose type differs in one extent.
bool grows(const Graph& graph, const StateNames& state);

/// The graph with `growing` states, after = concat(before, new rows), as states of the type that `after` has, its
/// capacity. Their rows that hold something come first; how many they are when a run begins is an input of the graph,
/// i64[1], "NAME_length" after the first state that has it: states of equal extents share it. New rows go behind those
/// (update_slice). Sums, maxima and softmaxes along rows leave out the rest; inputs that have an element for each row
/// of `after` count rows in that order, too.
///
/// Throws Unsupported with the node where that cannot be had: a state that is read otherwise, or rows that meet an
/// operator which is not known to keep them apart, or leave the graph.
Graph append_states(const Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& growing);

/// States of f32 that only take rows, as keys and values of a cache do, as states of `dtype`, f16 or bf16: like other
/// values they are stored in it, and each element is rounded once, when its row comes. States of `dtype` that the model
/// updates as f32 between two casts are updated as they are. States that are computed from
/// what they were stay f32: they would be rounded in each run.
graph::Graph narrow_states(const graph::Graph& graph, const graph::OpTable& ops, const std::vector<StateNames>& states,
                           DataType dtype);

}  // namespace tw::transform
