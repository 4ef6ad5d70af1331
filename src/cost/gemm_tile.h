// Tiles of matrix products on GPUs: how they lie over threads, and the time that a product takes in them.
#pragma once
#include <vector>

#include "core/target_info.h"

namespace tw::cost {

/// By which lines in shared memory are longer than their elements, so that neighbours lie in different banks. Operands
/// of warp groups lie without gaps, in an order that does the same.
inline constexpr int64_t kBankBytes = 16;
inline constexpr int64_t kInstructionRows = 16, kInstructionColumns = 8;  // of a warp's matrix instruction
inline constexpr int64_t kGroupWarps = 4, kGroupRows = 64;                // of a warp group, and of its instruction
inline constexpr int64_t kMatrixSteps = 16;  // k of a matrix instruction: 16-bit floats, or two of tf32

/// What runs one factor of a tile's rows or columns.
/// kMatrix: a matrix instruction; what it leaves is unrolled (kMatrix) or a vector (kMatrixVector).
enum class FactorKind : uint8_t { kThreads, kUnrolled, kVector, kMatrix, kMatrixVector };

/// What multiplies: threads of a GPU by themselves, a warp by mma instructions, four warps by asynchronous wgmma
/// instructions; a core of a CPU.
enum class Multiplier : uint8_t { kThread, kWarp, kWarpGroup, kCore };

struct Factor {
  int64_t extent = 1;
  FactorKind kind = FactorKind::kUnrolled;
};

/// A tile of sums: its rows and columns as factors, outermost first.
struct ThreadBlockTile {
  std::vector<Factor> rows, columns;
  std::vector<Factor> batch;  // products of a batch beside each other, as factors of the batch; none: one
  int64_t tile_k = 16;        // K of a k-block
  int64_t stages = 1;         // k-blocks in flight
  Multiplier multiplier = Multiplier::kThread;
  bool tma = false;               // TMA loads the operands
  int64_t row_cluster = 1;        // tiles of a cluster along rows, which share the columns' operand
  int64_t column_cluster = 1;     // tiles of a cluster along columns, which share the rows' operand; one of both is 1
  int64_t filter_positions = 1;   // that share a k-block of rows, each with columns of its own
  int64_t halo = 0;               // rows beyond the tile's that filter positions read
  int64_t persistent_blocks = 0;  // blocks that walk over all tiles, `together` at a time; 0: a block for each tile
  int64_t together = 1;           // tiles in flight of a persistent block
  bool columns_stay = false;      // all steps of the columns' operand are brought once for all tiles of a block
  int64_t kept_bytes = 0;         // bytes a result kept in shared memory until the tile is complete; 0: none

  static int64_t extent(const std::vector<Factor>& factors);
  /// Of all products that it has a part of.
  int64_t num_sums() const { return extent(batch) * extent(rows) * extent(columns); }
  int64_t threads() const;
  bool by_matrix() const { return multiplier != Multiplier::kThread; }
  /// Bytes behind each line of `elements` in shared memory, of `bytes` each; behind each line of kept results.
  int64_t line_pad_bytes(int64_t elements, int64_t bytes) const;
  int64_t kept_pad_bytes() const;
  /// Of the results that are kept.
  int64_t kept_shared_bytes() const;
  /// Of one k-block of both operands, whose elements have `bytes`; without that of the columns where it stays.
  int64_t shared_bytes(int64_t bytes) const;
  /// Of all `k` steps of the columns' operand.
  int64_t columns_bytes(int64_t k, int64_t bytes) const;
};

/// `batch` products of matrices [M, K * filter positions] and [K * filter positions, N]; `bytes` of an element of the
/// operands. M counts rows of the result, N its columns, K the terms of its sums: the steps of their loop.
struct GemmProblem {
  int64_t batch = 1;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  int64_t bytes = 4;
  int64_t result_bytes = 4;      // bytes a sum, stored and read beside the operands
  bool by_matrix = false;        // matrix instructions: operands of 16 bits or rounded to tf32, sums f32
  int64_t neighbours = 2;        // 2, 4 or 8: max neighbouring columns of a thread, stored together
  bool tma = false;              // both operands are TMA-eligible: k-blocks are boxes of a tensor
  bool rows_beside = false;      // elements of a step lie beside each other: warp groups read them in blocks of lines,
  bool columns_beside = false;   // the same of columns
  int64_t operand_bytes = 0;     // both operands, each element once
  int64_t split_k = 1;           // parts of each sum, counted in `batch`; a second kernel adds them
  int64_t added_bytes = 0;       // bytes a sum of the second kernel's other operands and results
  int64_t filter_positions = 1;  // overlapping, beside K; M counts the halo
  int64_t halo = 0;              // rows between the first and the last filter position
  int64_t pixels = 1;            // input pixels of a row of windows, halo included
  int64_t max_lines = 256;       // max rows of one TMA copy, halo included
  bool columns_stay = false;     // all steps of the columns' operand are brought once for all tiles of a block
  int64_t kept_bytes = 0;        // bytes a sum kept in shared memory by tiles of all rows; 0: none
  int64_t odd_bytes = 0;         // bytes of a result whose lines begin at odd elements; 0: aligned
  bool packs = false;            // a tile may have several products of the batch, narrow ones
};

/// Products of operands of `bytes` that an SM adds to their sums in a cycle.
double products_a_cycle(Multiplier multiplier, int64_t bytes, const SmRates& sm);

/// Sums of a thread of `tile`; tiles that `problem` falls into.
int64_t sums_of_thread(const ThreadBlockTile& tile);
int64_t tiles_of(const ThreadBlockTile& tile, const GemmProblem& problem);

/// Predicted time in cycles of one SM. A step takes as long as the longest of its products, its operands' way from L2
/// and their way from shared memory, and a share of the other two; results go to memory. Tiles run in waves of as many
/// as an SM has registers and memory for, or one after the other where blocks walk over them. Operands come from memory
/// once. A second kernel begins and reads the split-K partial sums, where there are some.
double predicted_cycles(const ThreadBlockTile& tile, const GemmProblem& problem, const TargetInfo& target);

/// A block of a kernel of the template library. Kernels of warps have `row_warps` and `column_warps`; those of warp
/// groups have none.
struct TemplateTile {
  int m = 0, n = 0, steps = 0;              // of its tile, and of a k-block
  int row_cluster = 1, column_cluster = 1;  // blocks that share what they load
  int row_warps = 0, column_warps = 0;
  int shared_steps = 0;   // stream-K: k-blocks that a block has at least; 0: blocks have whole sums
  bool pingpong = false;  // each warp group has a tile of its own
};

/// Time in cycles of an SM: what has to pass the L2 cache, shared memory and the tensor cores, the longest of them, at
/// the share of SMs that whole waves of tiles keep busy (after DeepGEMM's heuristics for sm_90). Of `problem` batch, m,
/// n, k and bytes are read.
double template_cycles(const TemplateTile& tile, const GemmProblem& problem, const TargetInfo& target);

}  // namespace tw::cost
