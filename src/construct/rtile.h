// rTiles (mechanisms R1-R4): tile shapes over the axes of one operator that are aligned with what the hardware works
// in, enlarged along the axis that saves the most traffic for each byte of footprint until a memory level is full.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cost/nest.h"
#include "cost/register_tile.h"

namespace tw::construct {

using cost::RegisterTile, cost::TileProblem;

/// The `count` register tiles with the least predicted time (cost::step_cycles) among those that fit the registers,
/// best first: outer*inner*vectors accumulators + vectors of B + 1 broadcast <= registers.
std::vector<RegisterTile> best_tiles(const TileProblem& problem, const TargetInfo& target, size_t count);

/// Points along each axis of the operator.
using RTile = std::vector<int64_t>;

/// How sizes along one axis are aligned.
struct AxisAlignment {
  int64_t unit = 1;      // points of the execution unit and of a transaction: sizes are multiples of it
  bool enlarges = true;  // false: reduction axes and axes that a level may not cut
};

/// An operator to be tiled at one memory level.
struct RTileSpace {
  const cost::Nest& nest;  // axes and accesses; its loops do not matter here
  std::vector<AxisAlignment> alignment;
  double ns_per_point = 0;  // arithmetic of one point of all axes
  int64_t line_bytes = 64;
};

/// The smallest size above `size` that is a multiple of the unit and cuts the axis into near-equal parts with little
/// padding waste (padded size / size - 1); 0 when there is none. Source: Roller, section 3.2.
int64_t next_aligned_axis_size(int64_t extent, const AxisAlignment& alignment, int64_t size);

/// Bytes that the operator moves when every tile loads its footprint: Q(T).
double tile_traffic(const RTileSpace& space, const RTile& tile);

/// S_i = (Q(T) - Q(T'_i)) / (F(T'_i) - F(T)) for axis i enlarged to `size`; F is the footprint in bytes.
double reuse_score(const RTileSpace& space, const RTile& tile, size_t axis, int64_t size);

struct ScaledTile {
  RTile tile;
  double score = 0;    // of the last enlargement; 0: none fitted
  std::string reason;  // why it was not enlarged further
};

/// Up to `limit` rTiles for a memory of `capacity` bytes that is filled at `bytes_per_ns`: from `start`, depth first in
/// order of descending score with backtracking, until nothing fits, or loading takes less than a quarter of the tile's
/// arithmetic (then more reuse would not pay).
std::vector<ScaledTile> scale_up(const RTileSpace& space, const RTile& start, int64_t capacity, double bytes_per_ns,
                                 size_t limit);

}  // namespace tw::construct
