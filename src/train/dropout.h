// Dropouts of a training step: all draw from one seed, which comes with the batch, at the number of the step.
#pragma once
#include "graph/graph.h"

namespace tw::train {

/// Whether a node of `graph` is a dropout that was kept for training.
bool has_dropouts(const graph::Graph& graph);

/// Gives all of them the input `seed` i64[], which it adds, and `step` f32[], a value that no node computes.
void seed_dropouts(graph::Graph& graph, graph::ValueId step);

}  // namespace tw::train
