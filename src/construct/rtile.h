// rTiles (mechanisms R1-R4): tile shapes over the axes of one operator, one for each memory level, aligned with what
// the hardware works in, enlarged along the axis that saves the most traffic for each byte of footprint until a level
// is full. next_aligned_axis_size() has all alignments.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cost/calibrated.h"
#include "cost/gemm_tile.h"
#include "cost/nest.h"

namespace tw::construct {

using cost::Multiplier;

/// Points along each axis of the operator, at one memory level.
using RTile = std::vector<int64_t>;
/// Those of several levels, nearest first: each is made of whole ones of the level before.
using RTiles = std::vector<RTile>;

/// What an axis is to the operator, and so to what multiplies. kFixed: tiles are as they begin, as
/// scale_up() leaves kSteps, too: those have a rule of their own.
enum class AxisRole : uint8_t { kFixed, kBatch, kRows, kColumns, kSteps };

struct TileAxis {
  AxisRole role = AxisRole::kFixed;
  int64_t transaction = 1;  // points that one memory transaction moves: sizes are multiples where that pads little
  int64_t box = 0;          // points of a TMA box: none of a tile of whole boxes begins beyond the axis; 0: no boxes
};

/// A memory level to fill: whether tiles up to it fit, and at what rate it is filled from the one behind it.
struct TileLevel {
  std::string name;
  std::function<bool(const RTiles&)> fits;
  double bytes_per_ns = std::numeric_limits<double>::infinity();
  bool keeps_passed = false;  // tiles that were enlarged are results, too: small operators shrink to them (R5)
};

/// An operator to be tiled, and for what.
struct TileSpace {
  const cost::Nest& nest;  // axes and accesses; its loops do not matter here
  std::vector<TileAxis> axes;
  Multiplier multiplier = Multiplier::kCore;
  std::vector<TileLevel> levels;
  double ns_per_point = 0;  // arithmetic of one point of all axes
  int64_t line_bytes = 64;
  double max_waste = cost::kMaxWaste;  // of an axis: padded over own points, less 1; Roller's epsilon
};

/// The next size of `axis` above that of the last of `tiles` which is aligned with the multiplier, with a transaction
/// of memory, and with the tensor: whole tiles of the level before, near-equal parts of the axis, its padding within
/// space.max_waste. 0 when there is none. Source: Roller, section 3.2.
int64_t next_aligned_axis_size(const TileSpace& space, const RTiles& tiles, size_t axis);

/// The largest aligned size of one axis of the last of `tiles` that fits, 0 where none does: of reductions, which save
/// nothing by the score.
int64_t largest_aligned_size(const TileSpace& space, RTiles tiles, size_t axis,
                             const std::function<bool(int64_t)>& fits);

/// Bytes that the operator moves when every tile loads its footprint: Q(T).
double tile_traffic(const TileSpace& space, const RTile& tile);

/// S_i = (Q(T) - Q(T'_i)) / (F(T'_i) - F(T)) for axis i enlarged to `size`; F is the footprint in bytes.
double reuse_score(const TileSpace& space, const RTile& tile, size_t axis, int64_t size);

/// Up to `limit` tiles of all levels: the nearest begins as `start`, each other one as the one before it. Each level is
/// enlarged depth first in order of descending score with backtracking, until nothing fits, or loading takes less than
/// a quarter of the tile's arithmetic (then more reuse would not pay); then the next one is.
std::vector<RTiles> scale_up(const TileSpace& space, const RTiles& start, size_t limit);

/// Those of scale_up() that `is_legal`, with a bound of waste that grows fourfold until there are `enough`, or no more.
std::vector<RTiles> scale_up_growing(TileSpace space, const RTiles& start, size_t limit, size_t enough,
                                     const std::function<bool(const RTiles&)>& is_legal);

}  // namespace tw::construct
