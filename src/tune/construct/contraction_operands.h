// How the operands of a contraction are read: the order of its reductions, and B in panels.
#pragma once
#include <optional>
#include <vector>

#include "tune/construct/construct.h"
#include "tune/construct/contraction_tiles.h"

namespace tw::tune {

/// Reduction axes from the outermost to the innermost loop: in the order in which A is stored. (The channel axis comes
/// first in a convolution's definition, and is contiguous in channels-last storage.)
std::vector<te::Axis> reduction_order(const te::Program& program, const schedule::Contraction& match);

/// Stores B in panels of a register tile's columns, block of the reduction by block, where it is a constant, or copies
/// it there where enough rows read it, or leaves it. Returns the copy, a stage that is still to be scheduled.
std::optional<te::Compute> place_b(const ContractionProblem& problem, const ContractionTiling& tiling,
                                   const GroupTask& task, Construction& out);

}  // namespace tw::tune
