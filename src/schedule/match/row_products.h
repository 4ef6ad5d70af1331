// Products of few rows, one after the other: what a block of a GPU takes that computes a whole row, all stages of it.
#pragma once
#include "core/target_info.h"
#include "schedule/match/stages.h"

namespace tw::schedule {

/// What one row takes of a block.
struct RowProducts {
  RowProgram rows;
  int64_t threads = 0;    // of a block
  int64_t lanes = 1;      // elements of one access
  int64_t products = 0;   // one after the other
  int64_t row_bytes = 0;  // of the inputs that one row reads

  int64_t elements(const te::Compute& c) const;
  /// Warps that have an element each at a time: as many as leave none without.
  int64_t warps(const te::Compute& c) const;
  /// Terms that one access of a lane brings, where warps share them.
  int64_t term_lanes(const te::Compute& c) const;
};

/// `program` as products of rows of which a block computes one; the primitives that inline stages are appended to `s`.
/// Declines rows that are many or short, and what is no product, or only one.
Result<RowProducts> match_row_products(Schedule& s, const te::Program& program, const TargetInfo& target);

}  // namespace tw::schedule
