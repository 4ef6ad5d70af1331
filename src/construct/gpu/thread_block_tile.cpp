#include "construct/gpu/thread_block_tile.h"

#include <numeric>

#include "support/math.h"

namespace tw::construct {
namespace {

using enum FactorKind;

// The columns of `eighths` instructions: each leaves pairs of columns with its threads, and the pairs that a thread has
// of several instructions are neighbours, up to `neighbours` columns.
void add_columns(int64_t eighths, FactorKind kind, int64_t neighbours, std::vector<Factor>& columns) {
  const int64_t together = std::gcd(eighths, neighbours / 2);
  columns.insert(columns.end(), {{eighths / together, kind}, {4, kThreads}, {2 * together, kMatrixVector}});
}

// Threads fill a copy of the buffers while the instructions of warp groups still use two.
int64_t min_stages(const ThreadBlockTile& tile) {
  return tile.tma ? 1 : tile.multiplier == Multiplier::kWarpGroup ? 3 : 2;
}

// K-blocks of `block` bytes under way at once, no more than there are: as many as have room beside `at_once` - 1 other
// tiles, but, with up to two of those, no less than keep instructions busy. One more is in use while instructions of
// warp groups run on.
int64_t stages_of(const ThreadBlockTile& tile, const GemmProblem& problem, int64_t block, int64_t room,
                  int64_t at_once) {
  constexpr int64_t kFew = 4, kMany = 8;
  const bool busy = tile.multiplier == Multiplier::kWarpGroup && tile.filter_positions == 1 && at_once <= 2;
  const int64_t min = std::max(min_stages(tile), busy ? kFew : int64_t{2});
  const int64_t stages = std::clamp<int64_t>(room / block, min, tile.tma ? kMany : kFew);
  if (tile.persistent_blocks > 0) return stages;  // those of the next tile follow
  return std::min(stages, std::max(min_stages(tile), ceil_div(problem.k, tile.tile_k)));
}

// Whether a block that walks over tiles, `together` of them at a time, has the threads and registers that it needs.
bool fit_together(const ThreadBlockTile& tile, const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kQuarter = 4 * kWarpThreads;       // register allocation: by warps of the four SM partitions
  constexpr int64_t kOthers = 32, kMaxThreads = 1024;  // registers of a thread beside its sums; threads of a block
  const int64_t threads = tile.threads() * tile.together + kWarpThreads;
  const int64_t registers = target.sm.registers / (ceil_div(threads, kQuarter) * kQuarter) / 8 * 8;
  return cost::sums_of_thread(tile) + kOthers <= registers && threads <= kMaxThreads &&
         cost::tiles_of(tile, problem) > tile.persistent_blocks * tile.together;
}

// Adds `tile` for blocks that walk over tiles: as many of these together as fit, and two.
void add_walking(ThreadBlockTile tile, const GemmProblem& problem, const TargetInfo& target, int64_t room,
                 std::vector<ThreadBlockTile>& all) {
  constexpr int64_t kMaxTogether = 4, kMaxCluster = 2;  // more do not have a block on each SM all the time
  const int64_t cluster = tile.row_cluster * tile.column_cluster;
  if (cluster > kMaxCluster) return;
  tile.persistent_blocks = std::max(cluster, target.compute_units / cluster * cluster);
  const int64_t block = tile.shared_bytes(problem.bytes);
  tile.stages = stages_of(tile, problem, block, room - target.sm.reserved_bytes, 1);
  if (tile.stages * block + target.sm.reserved_bytes > room) return;
  for (tile.together = kMaxTogether; tile.together > 0; --tile.together) {
    if (!fit_together(tile, problem, target)) continue;
    all.push_back(tile);
    if (tile.together <= 2) break;
    tile.together = 3;
  }
}

}  // namespace

ThreadBlockTile tile_of(const WarpTile& w, int64_t neighbours) {
  ThreadBlockTile tile;
  tile.rows = {{w.row_warps, kThreads}, {w.rows, kUnrolled}, {2, kMatrix}, {8, kThreads}};
  tile.columns = {{w.column_warps, kThreads}};
  add_columns(w.columns, kUnrolled, neighbours, tile.columns);
  tile.multiplier = Multiplier::kWarp;
  return tile;
}

ThreadBlockTile tile_of(const GroupTile& g, int64_t neighbours) {
  ThreadBlockTile tile;
  tile.rows = {{g.groups, kThreads}, {g.rows, kUnrolled}, {4, kThreads}, {2, kMatrix}, {8, kThreads}};
  add_columns(g.columns / 8, kMatrix, neighbours, tile.columns);
  tile.multiplier = Multiplier::kWarpGroup;
  return tile;
}

ThreadBlockTile tile_of_blocks(const GroupTile& g) {
  constexpr int64_t kPair = 2;
  ThreadBlockTile tile = tile_of(GroupTile{g.groups, g.rows, std::min(g.columns, kBlockLines)}, kPair);
  if (g.columns > kBlockLines) tile.columns.insert(tile.columns.begin(), {ceil_div(g.columns, kBlockLines), kMatrix});
  return tile;
}

std::vector<ThreadBlockTile> staged(ThreadBlockTile tile, const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kMaxTilesAtOnce = 4;
  const bool few = tile.tma && cost::tiles_of(tile, problem) <= target.compute_units;
  const int64_t min = few || tile.filter_positions > 1 ? 1 : 2, max = few ? 1 : tile.tma ? kMaxTilesAtOnce : 2;
  const int64_t room = target.levels.front().capacity_bytes - tile.kept_shared_bytes();
  const int64_t block = tile.shared_bytes(problem.bytes);
  std::vector<ThreadBlockTile> all;
  for (int64_t at_once = min; at_once <= max; ++at_once) {
    const int64_t wanted = stages_of(tile, problem, block, room / at_once - target.sm.reserved_bytes, at_once);
    tile.stages = std::min(wanted, (room - target.sm.reserved_bytes) / block);  // of large tiles a few less fit
    const bool known = !all.empty() && all.back().stages == tile.stages;
    if (!known && tile.stages >= std::min(wanted, min_stages(tile) + 1)) all.push_back(tile);
  }
  if (!tile.tma || tile.kept_bytes > 0) return all;
  add_walking(tile, problem, target, room, all);
  if (tile.row_cluster * tile.column_cluster > 1 || problem.batch > 1 || problem.columns_beside ||
      problem.n > ThreadBlockTile::extent(tile.columns))
    return all;
  const int64_t rest = room - tile.columns_bytes(problem.k, problem.bytes);
  tile.columns_stay = true;
  if (rest > 0) add_walking(tile, problem, target, rest, all);
  return all;
}

}  // namespace tw::construct
