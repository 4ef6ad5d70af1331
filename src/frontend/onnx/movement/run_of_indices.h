// Indices that come at run time and are known to be neighbours: start, start + 1, ..
#pragma once
#include <optional>

#include "frontend/onnx/context.h"

namespace tw::frontend {

/// The first of the elements of `indices`, one number, where they are, in row-major order, `start`, `start` + 1, ..:
/// one number, a number plus such constants, and what reshapes and casts make of them. Nothing where that is not known.
std::optional<ValueId> start_of_run(NodeContext& c, ValueId indices);

/// The same for indices that are one such run along `axis`, again and again in all other dims.
std::optional<ValueId> start_of_runs(NodeContext& c, ValueId indices, int64_t axis);

}  // namespace tw::frontend
