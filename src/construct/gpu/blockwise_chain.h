// Products one after the other whose rows between them are too wide for a tile: a block of columns at a time.
#pragma once
#include "construct/construct.h"
#include "schedule/match/tile_chain.h"

namespace tw::construct {

/// Adds the schedules by tiles that compute what the last product multiplies block by block of its steps, where there
/// are some: `base` with more behind it.
void add_blockwise(const schedule::Chain& chain, const Construction& base, const TargetInfo& target,
                   Candidates& candidates);

}  // namespace tw::construct
