// Dimensions of a model that have a range: one graph for all of their extents.
#pragma once
#include <vector>

#include "driver/function_graph.h"
#include "driver/options.h"
#include "frontend/onnx/import.h"

namespace tw::driver {

/// From `least` to `most`, the extents for which entries are compiled, in falling order: few enough for a file, each
/// serves those down to the next one.
std::vector<int64_t> extents_in_range(int64_t least, int64_t most);

/// The graph of the model, imported as `import` says; with dims that may be smaller it serves these extents, too
/// (transform/rewrite/live_extents.h). How shapes and constants depend on a dim is seen by importing the model again,
/// at the next smaller extent and at the smallest. Throws Unsupported with the node that forbids it and what to do for
/// the range that was asked for: from the `smallest` extents of all entries, where there are several, on.
FunctionGraph with_ranges(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                          const LeastExtents& least, const LeastExtents& smallest = {});

}  // namespace tw::driver
