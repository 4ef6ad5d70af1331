// The time of a register tile of a contraction on a CPU: rows x vectors of accumulators, by a closed-form count of
// issue cycles.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/target_info.h"
#include "expr/word_product.h"

namespace tw::cost {

/// What a product and its sum take beside one fused multiply-add of f32, the unit of issue cycles.
struct ProductCost {
  double cycles = 1;
  int64_t registers = 0;  // beside the sum's: a product that is not fused with its sum has one of its own
};

/// Of f32 products, or of words of `format` on `target`. Where a target has no fused multiply-add, its issue cycles are
/// those of a product and a sum already.
ProductCost product_cost(std::optional<WordFormat> format, const TargetInfo& target);

struct TileProblem {
  int64_t outer_rows = 1;  // extent of the second innermost row axis
  int64_t inner_rows = 1;  // extent of the innermost row axis
  int64_t columns = 1;     // extent of the vector axis, in elements
  int lanes = 16;          // elements in a vector
  int64_t row_stride = 0;  // bytes between A's elements of neighbouring inner rows
  int64_t steps = 64;      // reduction steps of one visit to a tile
  // Of the products the share that is not skipped in tiles of one outer row, of one inner row: those whose operand lies
  // in padding are tested for each row.
  double outer_share = 1;
  double inner_share = 1;
  ProductCost product = {};
  double operand_cycles = 0;  // what converting one operand takes, an element of A or a vector of B
  bool a_is_vector = false;   // A is read along the columns too (depthwise): no broadcast, no reuse
};

struct RegisterTile {
  int64_t outer = 1;    // rows of the outer row axis
  int64_t inner = 1;    // rows of the inner row axis
  int64_t vectors = 1;  // vectors along the columns
  double cycles = 0;  // predicted time of one reduction step over all rows and columns, in issue cycles of vector FMAs
};

/// Issue cycles of one reduction step over all rows and columns of `problem` in tiles of `tile`, whose own `cycles` are
/// not read. Of each tile max(fmas, loads, latency) + loads' own cost + loop control + conflicts + its visit's share.
/// Source: cost terms of Goto & van de Geijn's inner kernel: FMA throughput, load throughput, FMA latency, conflicts of
/// rows that share an L1 set.
double step_cycles(const RegisterTile& tile, const TileProblem& problem, const TargetInfo& target);

/// The `count` register tiles with the least predicted time among those that fit the registers, best first:
/// outer*inner*vectors accumulators + vectors of B + 1 broadcast <= registers.
std::vector<RegisterTile> best_tiles(const TileProblem& problem, const TargetInfo& target, size_t count);

}  // namespace tw::cost
