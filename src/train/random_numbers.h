// Random numbers of a training step, those of dropouts and of noise: all are drawn from one seed, which comes with the
// batch, at the number of the run.
#pragma once
#include "graph/op.h"

namespace tw::train {

/// What a step that draws numbers has beside others: an input and a state.
inline constexpr const char* kSeed = "seed";
inline constexpr const char* kRuns = "runs";
inline constexpr const char* kNamesOfRandom[] = {kSeed, kRuns};

/// Whether a node of `graph` draws numbers.
bool draws_numbers(const graph::Graph& graph);

/// The graph where numbers that are 1 with probability p, else 0, are p times a dropout of ones: both less(u, p) as a
/// float and floor(u + p), of u uniform from 0 to 1, as exporters write stochastic depth. Without a seed, for
/// evaluation, the former would be what u = 1/2 gives; a dropout of ones is their mean.
graph::Graph with_dropouts_of_ones(const graph::Graph& graph, const graph::OpTable& ops);

/// All of them draw from `seed` i64[] at number `run` i64[], which no node computes.
void seed_numbers(graph::Graph& graph, graph::ValueId seed, graph::ValueId run);

}  // namespace tw::train
