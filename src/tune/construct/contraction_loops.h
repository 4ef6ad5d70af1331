// The schedule of a tiled contraction: the output cut into blocks and register tiles, the sums of a tile in registers,
// the epilogue on the tile.
#pragma once
#include <string>

#include "schedule/schedule.h"
#include "tune/construct/contraction_operands.h"
#include "tune/construct/contraction_tiles.h"
#include "tune/construct/tile_place.h"

namespace tw::tune {

struct ContractionLoops {
  const ContractionProblem& problem;
  const ContractionTiling& tiling;
  std::string output;  // stage that owns the tiles: the sum itself or the end of its epilogue
  Panels panels = {};
  TilePlace place = {};
};

/// Appends the loops of the sum, its epilogue and its output. The sum's own name stays the stage that the epilogue
/// reads. Side stages and the storage of B are scheduled before.
/// Returns the loop of `output` around one block, or an empty name where the output is one block.
std::string schedule_contraction(const ContractionLoops& loops, schedule::Schedule& s);

}  // namespace tw::tune
