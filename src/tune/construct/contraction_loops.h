// The schedule of a tiled contraction: the output cut into blocks and register tiles, the sums of a tile in registers,
// the epilogue on the tile.
#pragma once
#include <string>

#include "schedule/schedule.h"
#include "tune/construct/contraction_tiles.h"

namespace tw::tune {

struct ContractionLoops {
  const ContractionProblem& problem;
  const ContractionTiling& tiling;
  std::string output;  // stage that owns the tiles: the sum itself or the end of its epilogue
};

/// Appends the loops of the sum, its epilogue and its output. The sum's own name stays the stage that the epilogue
/// reads. Side stages and the storage of B are scheduled before.
void schedule_contraction(const ContractionLoops& loops, schedule::Schedule& s);

}  // namespace tw::tune
