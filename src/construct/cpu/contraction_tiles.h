// How a contraction is tiled: register tiles by their issue cycles, blocks of them by Roller's scale-up over the
// caches, the order of block loops by the model of the whole nest.
#pragma once
#include <string>
#include <vector>

#include "core/target_info.h"
#include "cost/register_tile.h"
#include "schedule/match/contraction.h"

namespace tw::construct {

using cost::RegisterTile, cost::TileProblem;

struct ContractionProblem {
  const te::Program& program;
  const schedule::Contraction& match;
  std::vector<te::Axis> reductions;  // outermost loop first
  int lanes = 1;                     // elements of a vector along the columns
};

/// Loops around the register tile, outermost first: batch; blocks of columns and rows (or rows and columns); blocks of
/// the longest reduction; tiles of columns and rows inside a block (or rows and columns); the reduction inside its
/// block.
struct ContractionTiling {
  RegisterTile tile;
  int64_t column_tiles = 1;      // in a block
  int64_t row_tiles = 1;         // in a block, along the blocked row axis
  int64_t reduction_blocks = 1;  // more than 1: the block's sums are stored in memory between them
  bool columns_outside = true;   // blocks of columns around blocks of rows
  bool columns_around = true;    // inside a block: tiles of columns around tiles of rows
  bool is_shared = true;         // by threads; else one computes all
  double predicted_ns = 0;
  std::vector<std::string> trace;
};

/// The row axis that is split into blocks: the second innermost one, or the only one; null without rows.
const te::Axis* blocked_row(const schedule::Contraction& match);
/// Rows of that axis in one register tile.
int64_t blocked_rows(const schedule::Contraction& match, const RegisterTile& tile);

/// The number of the reduction that is split into blocks: the longest one, of a convolution its channels; 0 without
/// one.
size_t blocked_reduction(const ContractionProblem& problem);

/// At most `limit` tilings, best predicted first, all different.
std::vector<ContractionTiling> tile_contraction(const ContractionProblem& problem, const TargetInfo& target,
                                                size_t limit);

/// At most `count` tilings drawn at random, all different and predicted: any register tile that fits, blocks of any
/// number of them (uniform in the logarithm), loops in any order.
std::vector<ContractionTiling> sample_tilings(const ContractionProblem& problem, const TargetInfo& target, size_t count,
                                              uint64_t seed);

}  // namespace tw::construct
