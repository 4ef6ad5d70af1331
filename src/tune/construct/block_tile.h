// Tiles of matrix products on devices whose tiles have threads: which there are, how they lie over threads, and which
// one a product should take.
#pragma once
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/target_info.h"

namespace tw::tune {

/// By which lines in shared memory are longer than their elements, so that neighbours lie in different banks.
inline constexpr int64_t kBankBytes = 16;

/// What runs one factor of a tile's rows or columns.
enum class Part : uint8_t { kThreads, kUnrolled, kVector, kMatrix };

struct Factor {
  int64_t extent = 1;
  Part part = Part::kUnrolled;
};

/// A tile of sums: its rows and columns as factors, outermost first.
struct BlockTile {
  std::vector<Factor> rows, columns;
  int64_t steps = 16;        // of the sum between two loads of operands
  int64_t stages = 1;        // blocks of steps under way at once
  int64_t matrix_steps = 0;  // of a matrix instruction; 0: the threads multiply themselves

  static int64_t extent(const std::vector<Factor>& factors);
  int64_t threads() const;
  /// Of one block of steps of both operands, whose elements have `bytes`; lines are kBankBytes longer than they need
  /// be.
  int64_t shared_bytes(int64_t bytes) const;
};

/// A product of matrices [rows, steps] and [steps, columns], `batch` times; `bytes` of an element of the operands.
struct BlockProblem {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t steps = 1;
  int64_t bytes = 4;
  bool is_half = false;  // the operands are 16-bit floats, the sums f32
};

/// The tiles for `problem`, best predicted first. Time of a tile is that of its products or of its operands on the way
/// from the second cache, whichever is longer; tiles run in waves of one a unit.
std::vector<BlockTile> block_tiles(const BlockProblem& problem, const TargetInfo& target);

/// Predicted time in cycles of one unit.
double predicted_cycles(const BlockTile& tile, const BlockProblem& problem, const TargetInfo& target);

}  // namespace tw::tune
