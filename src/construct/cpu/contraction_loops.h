// The schedule of a tiled contraction: the output cut into blocks and register tiles, the sums of a tile in registers,
// the epilogue on the tile.
#pragma once
#include <string>

#include "construct/cpu/contraction_operands.h"
#include "construct/cpu/contraction_tiles.h"
#include "construct/cpu/tile_place.h"
#include "schedule/schedule.h"

namespace tw::construct {

struct ContractionLoops {
  const ContractionProblem& problem;
  const ContractionTiling& tiling;
  std::string output;  // stage that owns the tiles: the sum itself or the end of its epilogue
  Panels panels = {};
  TilePlace place = {};
};

/// Whether one tile of threads may read a panel of B for all rows, and there are enough such tiles: then B is copied
/// panel by panel where it is read, and no copy of all of B leaves the caches.
bool packs_inside(const ContractionProblem& problem, const ContractionTiling& tiling, const TargetInfo& target);

/// Appends the loops of the sum, its epilogue and its output. The sum's own name stays the stage that the epilogue
/// reads. Side stages and the storage of B are scheduled before.
/// Returns the loop of `output` around one block, or an empty name where the output is one block.
std::string schedule_contraction(const ContractionLoops& loops, schedule::Schedule& s);

}  // namespace tw::construct
