// Rows of matrices as the threads of a tile hold them in registers: as matrix instructions leave sums, and as the next
// ones take them for their left operand.
#pragma once
#include <string>
#include <vector>

#include "construct/gpu/thread_block_tile.h"
#include "schedule/schedule.h"

namespace tw::construct {

/// Lanes that share a row of sums, and neighbours that each holds.
inline constexpr int64_t kPairs = 4, kPair = 2;

/// The axes of a stage by what runs them.
struct WarpLoops {
  std::vector<std::string> outer, warps, lanes, inner;
  std::string vector;  // the one of `inner` that is a vector, if any

  /// Axis number `dim` on of a stage, as factors of a tile; `dim` becomes the number of the next one.
  void add(const std::vector<Factor>& factors, size_t& dim);
  /// The same of loops with these names.
  void add(const std::vector<Factor>& factors, const std::vector<std::string>& names);
  void add_outer(size_t count, size_t& dim);
  /// Brings the loops of `stage` into this order and gives them to threads.
  void order(schedule::Schedule& s, const std::string& stage) const;
};

/// Dim `dim`, of `extent`, in tiles of these factors, with zeros up to whole ones.
Layout tiled(Layout layout, size_t dim, int64_t extent, const std::vector<Factor>& factors);
/// Dim `dim` as these factors.
Layout split(const Layout& layout, size_t dim, const std::vector<Factor>& factors);
/// What one warp's lanes hold of so many steps of a left operand.
std::vector<Factor> step_factors(int64_t steps);

}  // namespace tw::construct
