// The register tile of a contraction: rows x vectors of accumulators, chosen by a closed-form cycle count.
#pragma once
#include <cstdint>

#include "core/target_info.h"

namespace tw::tune {

struct TileProblem {
  int64_t outer_rows = 1;    // extent of the second innermost row axis
  int64_t inner_rows = 1;    // extent of the innermost row axis
  int64_t columns = 1;       // extent of the vector axis, in elements
  int lanes = 16;            // elements in a vector
  int64_t row_stride = 0;    // bytes between A's elements of neighbouring inner rows
  bool a_is_vector = false;  // A is read along the columns too (depthwise): no broadcast, no reuse
};

struct RegisterTile {
  int64_t outer = 1;    // rows of the outer row axis
  int64_t inner = 1;    // rows of the inner row axis
  int64_t vectors = 1;  // vectors along the columns
};

/// The tile with the least predicted cycles for the whole problem among those that fit the registers:
/// outer*inner*vectors accumulators + vectors of B + 1 broadcast <= registers.
/// Source: cost terms of Goto & van de Geijn's inner kernel: FMA throughput, load throughput, FMA latency, conflicts of
/// rows that share an L1 set.
RegisterTile choose_tile(const TileProblem& problem, const TargetInfo& target);

}  // namespace tw::tune
