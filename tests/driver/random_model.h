// Random models over the operator table, small enough to compile by the hundred.
#pragma once
#include <cstdint>
#include <vector>

#include "artefact/session.h"
#include "graph/op.h"

namespace tw::driver::test {

/// A seeded, verified graph of 3 to 12 operators with odd extents and several outputs. Values stay of moderate size;
/// operators with jumps (comparisons, arg-reductions) only read inputs, constants and what moves them, so that rounding
/// decides nothing.
graph::Graph random_model(const graph::OpTable& ops, uint64_t seed);

/// Seeded inputs of a graph: floats in [-1, 1], integers 0 to 3.
std::vector<artefact::Array> random_arrays(const graph::Graph& graph, uint64_t seed);

}  // namespace tw::driver::test
