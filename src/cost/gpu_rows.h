// Times of rows and of scattered sums on GPUs.
#pragma once
#include "schedule/match/row_products.h"

namespace tw::cost {

/// Time in ns of `count` rows of which a thread computes each, its terms and elements, which a warp's threads load
/// apart.
double thread_rows_ns(const schedule::RowProgram& rows, int64_t count, const TargetInfo& target);

/// Whether a block sums a stage by warps, an element at a time whose terms lanes share, in fewer steps than by threads,
/// each an element with all of its terms: lanes combine what they share, and warps are fewer than threads.
bool sums_by_warps(const schedule::RowProducts& rows, const te::Compute& c);

/// Time in ns of a kernel whose rows all run at once, a block each: its launch, what each product waits for the one
/// before it, and a row's inputs from L2.
double row_products_ns(const schedule::RowProducts& rows, const TargetInfo& target);
/// Why a kernel for each product takes less time than one for all; empty where it does not.
std::string why_products_apart(const schedule::RowProducts& rows, const TargetInfo& target);

/// Blocks that add terms at computed indices to lines of their own: every warp of each looks at all `indices`, of which
/// `hits` are its block's.
struct ScatterWork {
  int64_t blocks, threads, resident;  // blocks in all; threads of one; blocks of an SM at a time
  int64_t indices;
  double hits;
  bool by_lanes;  // each lane of a warp looks at another index, and terms are fetched when theirs is found
};
/// Time in ns.
double scatter_ns(const ScatterWork& work, const TargetInfo& target);

}  // namespace tw::cost
