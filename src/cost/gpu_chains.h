// Times of chains of products on GPUs, by the tiles that compute them.
#pragma once
#include "cost/gemm_tile.h"

namespace tw::cost {

/// A tile that holds whole rows between the products: `rows` at a time, `blocks` times with the same second operands.
struct WholeRowsTile {
  int64_t rows, warps, blocks = 1;
};
/// What such tiles do: `m` rows of each of a batch, of `length` elements between the products; `depth` is the steps of
/// the first product and the columns of the last; a tile has `shared_bytes`, and fetches `operand_bytes` once.
struct WholeRowsWork {
  int64_t batch, m, length, depth, shared_bytes, operand_bytes;
};
/// Time in ns: waves of tiles, each its launch, its operands from L2, and for each block of rows its barriers and
/// rows * length * (an element's cycles + depth / the rate that its products reach).
double whole_rows_ns(const WholeRowsTile& tile, const WholeRowsWork& work, const TargetInfo& target);

/// A tile of a chain that reads operands block by block: its warps, `rows` of instructions of each, `block` elements of
/// a row that are there at a time, and blocks under way.
struct StreamedTile {
  int64_t warps, rows, block, stages;
  Multiplier multiplier = Multiplier::kWarp;

  bool by_groups() const { return multiplier == Multiplier::kWarpGroup; }
  int64_t threads() const { return warps * kWarpThreads; }
  int64_t tile_rows() const { return warps * rows * kInstructionRows; }
  /// With a warp for TMA beside several groups; registers go to blocks as if it were a group.
  int64_t block_threads() const { return threads() + (by_groups() && warps > kGroupWarps ? kWarpThreads : 0); }
};
/// What such tiles do: `m` rows of each of a batch, along `length` elements; `depth` counts the steps of the products
/// before the last one and its columns; a thread has `registers`, a tile `shared_bytes`.
struct StreamedWork {
  int64_t batch, m, length, depth, registers, shared_bytes;
};
/// Time in ns: waves of tiles, each its launch, and for each block its barrier and the cycles of its elements, of which
/// rows of a warp share what comes from shared memory for each instruction.
double streamed_ns(const StreamedTile& tile, const StreamedWork& work, const TargetInfo& target);

/// Tiles with a part of the keys each: `parts` of a row, which a second kernel combines; bytes are of a tile.
struct SplitWork {
  int64_t batch, parts, shared_bytes, operand_bytes;
};
/// Time in ns: waves of tiles, whose operands all come at once; and the second kernel, tuple after tuple.
double split_ns(const SplitWork& work, const TargetInfo& target);

/// Time in ns of a kernel behind another one that multiplies for `cycles` of all SMs together and moves `bytes` from
/// and to memory; `unoverlapped` is the share of the shorter of both that the longer one does not hide.
double kernel_ns(double cycles, double bytes, double unoverlapped, const TargetInfo& target);

}  // namespace tw::cost
