// Reductions along rows and the element-wise stages around them, in tiles of a few rows: softmax, layer norm.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "construct/cpu/tile_place.h"
#include "core/target_info.h"

namespace tw::construct {

/// Stages that share their first `rows` axes with the last one, which owns the tiles.
struct RowStages {
  const te::Program& program;
  size_t rows = 1;
  std::set<std::string> statistics = {};  // outputs of one element for each row: as those of schedule::RowProgram
};

/// How rows are run: a choice of the construction.
struct RowTiling {
  int64_t rows = 1;    // of a tile: each stage runs through all of them, so that one row's wait is another one's work
  int64_t chains = 1;  // vectors of partial results of one row: they hide the latency of their combination
  // Registers that an elementary function works on side by side: its steps wait for each other, and the core looks only
  // a few dozen instructions ahead for others that are ready.
  int64_t interleave = 1;
  friend bool operator==(const RowTiling&, const RowTiling&) = default;
};

/// Tilings worth a look: rows that divide their axis, as many accumulators as half the registers hold.
std::vector<RowTiling> row_tilings(const RowStages& stages, const TargetInfo& target);

/// Predicted time of one tiling in ns on all cores.
double predict_ns(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target);

void schedule_rows(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target, const TilePlace& place,
                   schedule::Schedule& s);

/// All stages but the last one, row after row in loop `place.loop` of `place.consumer`; tilings of one row.
void schedule_row_turns(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target,
                        const TilePlace& place, schedule::Schedule& s);

}  // namespace tw::construct
