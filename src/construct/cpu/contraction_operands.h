// How the operands of a contraction are read: the order of its reductions, and B in panels.
#pragma once
#include <optional>
#include <string>

#include "construct/construct.h"
#include "construct/cpu/contraction_tiles.h"

namespace tw::construct {

/// B stored so that a register tile reads one line after the other: [.., columns / panel, reductions.., panel].
struct Panels {
  std::string tensor;               // empty: B is not stored so
  int64_t line = 0;                 // its elements in a line of the nearest cache
  std::optional<te::Compute> copy;  // the stage that stores it; none: it is a constant
  bool inside = false;              // copied panel by panel by the tile of threads that reads it
  bool streams = false;             // larger than L2: panels come from beyond
};

/// The stage `name` that copies `source` to `layout`: its name, type and loops.
te::Compute packed_copy(const te::Tensor& source, const std::string& name, const Layout& layout);

/// Stores B in panels of a register tile's columns, block of the reduction by block, where it is a constant, or copies
/// it there where enough rows read it, or leaves it. The copy is still to be scheduled.
Panels place_b(const ContractionProblem& problem, const ContractionTiling& tiling, const GroupTask& task,
               const TargetInfo& target, Construction& out);

}  // namespace tw::construct
