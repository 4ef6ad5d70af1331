#include "construct/rtile.h"

#include <set>

#include "support/math.h"

namespace tw::construct {
namespace {

constexpr size_t kMaxVisits = 4000;  // of the search: levels of real operators end far below
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr int64_t kClusterTiles = 4;  // max tiles that share what one of them loads

// What multiplies at once: an access of four f32 by a thread, instructions of warps and warp groups, four unrolled
// steps of a core.
struct Instruction {
  int64_t rows, columns, steps, max_columns;
};
constexpr Instruction kInstructions[] = {
    {1, 4, cost::kMatrixSteps, kAny},
    {cost::kInstructionRows, cost::kInstructionColumns, cost::kMatrixSteps, kAny},
    {cost::kGroupRows, cost::kInstructionColumns, cost::kMatrixSteps, 256},
    {1, 1, 4, kAny},
};

double points(const RTile& tile) {
  double n = 1;
  for (const int64_t size : tile) n *= static_cast<double>(size);
  return n;
}

// What sizes of one axis are made of at one level.
struct Alignment {
  int64_t unit = 1;
  int64_t max = kAny;
  bool doubles = false;  // a power of two of units: threads and warps that a processor's partitions share evenly
  double max_waste = 0;
  int64_t base = 1;  // points that count: padding up to them is there already
};

Alignment alignment_of(const TileSpace& space, const RTiles& tiles, size_t axis) {
  // Levels of tiles, the nearest first: what multiplies, thread blocks, clusters of them.
  constexpr size_t kCluster = 3;
  const auto& [role, transaction, box] = space.axes[axis];
  const Instruction& instruction = kInstructions[static_cast<size_t>(space.multiplier)];
  const int64_t extent = space.nest.axes[axis].extent;
  const bool core = space.multiplier == Multiplier::kCore, group = space.multiplier == Multiplier::kWarpGroup;
  const bool first = tiles.size() == 1, cluster = tiles.size() == kCluster;
  Alignment a{.doubles = first ? space.multiplier == Multiplier::kThread : !core, .max_waste = space.max_waste};
  if (!first) a.unit = tiles[tiles.size() - 2][axis];
  if (first && role == AxisRole::kRows) a.unit = instruction.rows;
  if (first && role == AxisRole::kColumns) a.unit = instruction.columns, a.max = instruction.max_columns;
  // An instruction of a warp group is as wide as its block.
  if (!first && !cluster && group && role == AxisRole::kColumns) a.max = a.unit;
  if (cluster) a.max = kClusterTiles * a.unit;
  if (role == AxisRole::kSteps)
    a = {.unit = instruction.steps, .max = core ? kAny : transaction, .max_waste = core ? 0 : cost::kMaxStepWaste};
  // Products of a batch are not padded, a cluster's tiles are all there; loops of a core end where their tiles do.
  if (role == AxisRole::kBatch || cluster) a.max_waste = 0;
  a.base = (core && role != AxisRole::kSteps) || cluster ? round_up(extent, a.unit) : extent;
  return a;
}

bool pads_little(int64_t extent, int64_t size, const Alignment& a) {
  return static_cast<double>(round_up(extent, size) - a.base) <= a.max_waste * static_cast<double>(a.base);
}

// The most points of a transaction, halved until they pad little: of what a warp stores of its own, of neighbouring
// threads together.
int64_t transaction_of(const TileSpace& space, const RTiles& tiles, size_t axis, const Alignment& a) {
  const size_t storing = space.multiplier == Multiplier::kThread ? 2 : 1;
  const bool stores = tiles.size() == storing && space.axes[axis].role != AxisRole::kSteps;
  int64_t points = stores ? space.axes[axis].transaction : 1;
  const int64_t extent = space.nest.axes[axis].extent;
  while (points > 1 && (points >= 2 * extent || !pads_little(extent, points, a))) points /= 2;
  return points;
}

class ScaleUp {
 public:
  ScaleUp(const TileSpace& space, size_t first, size_t limit) : space_(space), first_(first), limit_(limit) {}

  std::vector<RTiles> run(RTiles start) {
    for (size_t axis = 0; axis < start.back().size(); ++axis) {
      if (start.back()[axis] == 0) start.back()[axis] = next_aligned_axis_size(space_, start, axis);
      if (start.back()[axis] == 0) return {};
    }
    enlarge(start);
    return std::move(found_);
  }

 private:
  struct Step {
    double score;
    size_t axis;
    int64_t size;
  };

  const TileLevel& level(const RTiles& tiles) const { return space_.levels[tiles.size() - first_]; }

  // Enlargements that fit, best score first.
  std::vector<Step> steps(RTiles& tiles) const {
    std::vector<Step> all;
    for (size_t axis = 0; axis < tiles.back().size(); ++axis) {
      if (space_.axes[axis].role == AxisRole::kSteps) continue;
      const int64_t next = next_aligned_axis_size(space_, tiles, axis), size = tiles.back()[axis];
      if (next == 0) continue;
      tiles.back()[axis] = next;
      const bool fits = level(tiles).fits(tiles);
      tiles.back()[axis] = size;
      if (fits) all.push_back({reuse_score(space_, tiles.back(), axis, next), axis, next});
    }
    std::ranges::stable_sort(all, [](const Step& a, const Step& b) { return a.score > b.score; });
    return all;
  }

  bool loads_fast(const RTiles& tiles) const {
    const RTile& tile = tiles.back();
    const auto bytes = static_cast<double>(cost::footprint_bytes(space_.nest, tile, space_.line_bytes));
    return bytes / level(tiles).bytes_per_ns * cost::kEnoughArithmetic <= points(tile) * space_.ns_per_point;
  }

  // The last of `tiles`, all of whose level's visited ones begin alike.
  void enlarge(RTiles& tiles) {
    std::set<RTile> visited;
    visit(tiles, visited);
  }

  void visit(RTiles& tiles, std::set<RTile>& visited) {
    if (found_.size() >= limit_ || visits_ >= kMaxVisits || !visited.insert(tiles.back()).second) return;
    ++visits_;
    if (loads_fast(tiles)) return descend(tiles);
    const std::vector<Step> next = steps(tiles);
    for (const Step& step : next) {
      const int64_t size = std::exchange(tiles.back()[step.axis], step.size);
      visit(tiles, visited);
      tiles.back()[step.axis] = size;
    }
    if (next.empty() || level(tiles).keeps_passed) descend(tiles);
  }

  // To the level behind it, whose tiles are made of this one.
  void descend(RTiles& tiles) {
    if (tiles.size() - first_ + 1 == space_.levels.size()) {
      if (found_.size() < limit_) found_.push_back(tiles);
      return;
    }
    tiles.push_back(tiles.back());
    if (level(tiles).fits(tiles)) enlarge(tiles);
    tiles.pop_back();
  }

  const TileSpace& space_;
  size_t first_;  // levels of the first tiles
  size_t limit_, visits_ = 0;
  std::vector<RTiles> found_;
};

}  // namespace

int64_t next_aligned_axis_size(const TileSpace& space, const RTiles& tiles, size_t axis) {
  const TileAxis& of = space.axes[axis];
  const int64_t extent = space.nest.axes[axis].extent, size = tiles.back()[axis];
  if (of.role == AxisRole::kFixed) return 0;
  Alignment a = alignment_of(space, tiles, axis);
  const int64_t transaction = transaction_of(space, tiles, axis, a);
  if (tiles.size() == 1) a.unit = std::max(a.unit, transaction);
  const auto is_aligned = [&](int64_t next) {
    const bool boxes_begin_beyond = of.box > 0 && next % of.box == 0 && round_up(extent, next) - extent >= of.box;
    return next > size && next % transaction == 0 && !boxes_begin_beyond && pads_little(extent, next, a);
  };
  if (a.doubles) {
    // Threads of the smallest products are a whole warp, some without a point.
    const bool threads = space.multiplier == Multiplier::kThread && tiles.size() > 1;
    const int64_t end = std::max(extent, a.unit) * (threads ? 4 : 2);
    for (int64_t next = std::max(a.unit, 2 * size); next < end && next <= a.max; next *= 2) {
      if (is_aligned(next)) return next;
    }
    return 0;
  }
  // Fewer parts until their near-equal size grows.
  const int64_t units = ceil_div(extent, a.unit);
  const int64_t parts = size == 0 ? units + 1 : ceil_div(units, ceil_div(size, a.unit));
  for (int64_t fewer = parts - 1; fewer >= 1; --fewer) {
    const int64_t next = ceil_div(units, fewer) * a.unit;
    if (next > a.max) return 0;
    if (is_aligned(next)) return next;
  }
  return 0;
}

int64_t largest_aligned_size(const TileSpace& space, RTiles tiles, size_t axis,
                             const std::function<bool(int64_t)>& fits) {
  int64_t& size = tiles.back()[axis] = 0;
  for (int64_t next = 0; (next = next_aligned_axis_size(space, tiles, axis)) > 0 && fits(next);) size = next;
  return size;
}

double tile_traffic(const TileSpace& space, const RTile& tile) {
  auto bytes = static_cast<double>(cost::footprint_bytes(space.nest, tile, space.line_bytes));
  for (size_t a = 0; a < tile.size(); ++a)
    bytes *= static_cast<double>(ceil_div(space.nest.axes[a].extent, std::max<int64_t>(1, tile[a])));
  return bytes;
}

double reuse_score(const TileSpace& space, const RTile& tile, size_t axis, int64_t size) {
  RTile larger = tile;
  larger[axis] = size;
  const int64_t grown = cost::footprint_bytes(space.nest, larger, space.line_bytes) -
                        cost::footprint_bytes(space.nest, tile, space.line_bytes);
  const double saved = tile_traffic(space, tile) - tile_traffic(space, larger);
  return saved / static_cast<double>(std::max<int64_t>(1, grown));
}

std::vector<RTiles> scale_up(const TileSpace& space, const RTiles& start, size_t limit) {
  return ScaleUp(space, start.size(), limit).run(start);
}

std::vector<RTiles> scale_up_growing(TileSpace space, const RTiles& start, size_t limit, size_t enough,
                                     const std::function<bool(const RTiles&)>& is_legal) {
  constexpr int kAnyWaste = 64;  // of a single row in an instruction of 64
  for (size_t before = 0;; space.max_waste *= 4) {
    std::vector<RTiles> found = scale_up(space, start, limit);
    std::erase_if(found, [&](const RTiles& t) { return !is_legal(t); });
    const bool grows = found.empty() || found.size() > before || space.max_waste < 1;
    if (found.size() >= enough || !grows || space.max_waste >= kAnyWaste) return found;
    before = found.size();
  }
}

}  // namespace tw::construct
