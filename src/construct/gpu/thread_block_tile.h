// Tiles of matrix products on GPUs (cost/gemm_tile.h): how they lie over threads, k-blocks and blocks that walk over
// them; which there are is constructed by scale-up (product_tiles.cpp).
#pragma once
#include "construct/construct.h"
#include "cost/gemm_tile.h"

namespace tw::construct {

using cost::Factor, cost::FactorKind, cost::GemmProblem, cost::Multiplier, cost::ThreadBlockTile;
using cost::kBankBytes, cost::kGroupRows, cost::kGroupWarps, cost::kInstructionColumns, cost::kInstructionRows,
    cost::kMatrixSteps;

/// Warps along rows and along columns, and the instructions (16 x 8) of each along both.
struct WarpTile {
  int64_t row_warps, column_warps, rows, columns;
};
/// Threads hold up to `neighbours` columns beside each other.
ThreadBlockTile tile_of(const WarpTile& warps, int64_t neighbours);

/// Warp groups along rows, instructions (64 rows) of each, and columns of an instruction.
struct GroupTile {
  int64_t groups, rows, columns;
};
ThreadBlockTile tile_of(const GroupTile& groups, int64_t neighbours);
/// The same where columns of 16 bits lie beside each other, in blocks of kBlockLines.
ThreadBlockTile tile_of_blocks(const GroupTile& groups);
inline constexpr int64_t kBlockLines = 64;

/// `tile` with as many k-blocks under way as leave room for one or two tiles beside each other, and, where TMA brings
/// them, for more: short sums spend much of their time before and behind their k-blocks. Also blocks that walk over
/// tiles, where TMA brings their operands. None where no k-block fits.
std::vector<ThreadBlockTile> staged(ThreadBlockTile tile, const GemmProblem& problem, const TargetInfo& target);

/// The tiles for `problem`, best predicted first; with a count to draw, any, in any order.
std::vector<ThreadBlockTile> thread_block_tiles(const GemmProblem& problem, const TargetInfo& target,
                                                const Sampling& sampling = {});

/// Tiles of all columns of `problem`, up to a multiple of 16, each warp with rows of its own.
std::vector<ThreadBlockTile> row_tiles(GemmProblem problem, const TargetInfo& target);

}  // namespace tw::construct
