// A graph that an artefact offers under the name of a function.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/format/manifest.h"

namespace tw::driver {

/// Several combinations of shapes of a function are several of these with its name, one behind the other. States by
/// name: an input that is one is read, and changes where the output that it becomes is there, too.
struct FunctionGraph {
  std::string function;  // "" where there is but one
  graph::Graph graph;
  std::vector<format::Extent> extents = {};  // each an input of the graph (driver/ranges.h)
  std::vector<std::string> warnings = {};
};

}  // namespace tw::driver
