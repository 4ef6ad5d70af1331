// The nine operators of ALT's evaluation, each alone in a graph, and factors of their layout templates.
#pragma once
#include <random>
#include <string_view>

#include "graph/op.h"
#include "te/layout_templates.h"

namespace tw::testing {

/// The operator of that name ("C2D", "GRP" ..) with random odd extents, strides, dilations and padding.
graph::Graph alt_operator(std::string_view name, std::mt19937_64& random);

/// Random tiles of `levels` levels for the factors of `row`.
te::TileFactors random_factors(const te::LayoutTemplate& row, int levels, std::mt19937_64& random);

/// The program of `graph`, and that under `row`, with factors that were drawn until none was declined since indices
/// divide.
struct TiledOperator {
  te::Program program;
  std::map<std::string, Layout> layouts;
  te::Program tiled;
};
TiledOperator tiled_operator(const graph::Graph& graph, const te::LayoutTemplate& row, int levels,
                             std::mt19937_64& random);

}  // namespace tw::testing
