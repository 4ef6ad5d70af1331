// What an artefact's entry will take, before its code is made.
#pragma once
#include <cstdint>

#include "driver/options.h"
#include "graph/graph.h"

namespace tw::driver {

struct Forecast {
  /// Of the values that groups leave for each other, placed as the artefact will have them. What the kernels of one
  /// group leave for each other is not in it.
  int64_t arena_bytes = 0;
  int64_t constant_bytes = 0;  // weights, tables
  double flop = 0;             // of the sums of products: 2 for each multiply and add
};

/// Of an entry of this graph for the first target of `options`, whose states by name are those that the graph has. Runs
/// the graph passes in their usual variants, and plans nothing. Throws what compile_functions() throws of graphs.
Forecast forecast(const graph::Graph& graph, const CompileOptions& options);

}  // namespace tw::driver
