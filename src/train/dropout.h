// Dropouts of a training step: all draw from one seed, which comes with the batch, at the number of the run.
#pragma once
#include "graph/graph.h"

namespace tw::train {

/// What a step with dropouts has beside others: an input and a state.
inline constexpr const char* kSeed = "seed";
inline constexpr const char* kRuns = "runs";
inline constexpr const char* kNamesOfDropouts[] = {kSeed, kRuns};

/// Whether a node of `graph` is a dropout that was kept for training.
bool has_dropouts(const graph::Graph& graph);

/// All of them draw from `seed` i64[] at number `run` i64[], which no node computes.
void seed_dropouts(graph::Graph& graph, graph::ValueId seed, graph::ValueId run);

}  // namespace tw::train
