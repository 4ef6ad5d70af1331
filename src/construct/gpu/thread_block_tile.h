// Tiles of matrix products on devices whose tiles have threads: which there are, how they lie over threads, and which
// one a product should take.
#pragma once
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/target_info.h"

namespace tw::construct {

/// By which lines in shared memory are longer than their elements, so that neighbours lie in different banks. Operands
/// of warp groups lie without gaps, in an order that does the same.
inline constexpr int64_t kBankBytes = 16;
inline constexpr int64_t kMatrixSteps = 16;  // of a matrix instruction of 16-bit floats, and of two of tf32

/// What runs one factor of a tile's rows or columns.
/// kMatrix: a matrix instruction; what it leaves is unrolled (kMatrix) or a vector (kMatrixVector).
enum class Part : uint8_t { kThreads, kUnrolled, kVector, kMatrix, kMatrixVector };

/// What multiplies: threads by themselves, a warp by mma instructions, four warps by asynchronous wgmma instructions.
enum class Multiplier : uint8_t { kThread, kWarp, kWarpGroup };

struct Factor {
  int64_t extent = 1;
  Part part = Part::kUnrolled;
};

/// A tile of sums: its rows and columns as factors, outermost first.
struct BlockTile {
  std::vector<Factor> rows, columns;
  int64_t steps = 16;  // of the sum between two loads of operands
  int64_t stages = 1;  // blocks of steps under way at once
  Multiplier multiplier = Multiplier::kThread;
  bool boxes = false;          // the copy engine brings the operands
  int64_t row_cluster = 1;     // tiles below each other that run at the same time and share their columns' operand
  int64_t column_cluster = 1;  // tiles beside each other that share their rows' operand; one of the two is 1
  int64_t taps = 1;            // of windows that read the same block of steps of rows, each another one of columns
  int64_t reach = 0;           // rows beyond the tile's that they read
  int64_t units = 0;           // not 0: a block on each walks over the tiles, `together` of them at a time
  int64_t together = 1;
  int64_t kept_bytes = 0;  // of each result, which stay in shared memory until all of the tile are there

  static int64_t extent(const std::vector<Factor>& factors);
  int64_t threads() const;
  bool by_matrix() const { return multiplier != Multiplier::kThread; }
  /// Bytes behind each line in shared memory, of elements of `bytes`.
  int64_t line_pad_bytes(int64_t bytes) const;
  /// Of one block of steps of both operands, whose elements have `bytes`.
  int64_t shared_bytes(int64_t bytes) const;
};

/// A product of matrices [rows, steps * taps] and [steps * taps, columns], `batch` times; `bytes` of an element of the
/// operands.
struct BlockProblem {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t steps = 1;
  int64_t bytes = 4;
  int64_t result_bytes = 4;   // that are stored for each sum, and read beside it
  bool by_matrix = false;     // the operands are 16-bit floats or rounded to tf32, the sums f32
  int64_t neighbours = 2;     // 2, 4 or 8 columns beside each other that one thread may hold: it stores them together
  bool boxes = false;         // a block of steps of each operand is a box of a tensor that the copy engine can bring
  int64_t operand_bytes = 0;  // of both operands, each element once
  int64_t parts = 1;          // of every sum, in `batch`: a second kernel adds them
  int64_t added_bytes = 0;    // that it stores for each sum, and reads beside the parts
  int64_t taps = 1;           // of windows that overlap, beside `steps`; rows count as many as they read
  int64_t reach = 0;          // rows from the first tap to the last one
  int64_t pixels = 1;         // that a row of windows reads
  int64_t most_lines = 256;   // of rows that one copy brings, those that taps read beyond a tile's included
  int64_t kept_bytes = 0;     // not 0: a tile has all rows and keeps so much of each sum in shared memory
  int64_t odd_bytes = 0;      // not 0: an element of results whose lines begin at any of them, not at whole words
};

/// Warps of rows and columns, each with so many instructions (16 x 8) of rows and columns.
struct WarpTile {
  int64_t row_warps, column_warps, rows, columns;
};
/// Threads hold up to `neighbours` columns beside each other.
BlockTile tile_of(const WarpTile& warps, int64_t neighbours);

/// The tiles for `problem`, best predicted first.
std::vector<BlockTile> block_tiles(const BlockProblem& problem, const TargetInfo& target);

/// Predicted time in cycles of one unit. A step takes as long as the longest of its products, its operands' way from
/// the second cache and their way from shared memory, and a share of the other two; results go to memory. Tiles run in
/// waves of as many as a unit has registers and memory for, or one after the other where blocks walk over them.
/// Operands come from memory once. A second kernel begins and reads the parts of sums, where there are some.
double predicted_cycles(const BlockTile& tile, const BlockProblem& problem, const TargetInfo& target);

}  // namespace tw::construct
