#include "construct/gpu/thread_block_tile.h"

#include <algorithm>
#include <numeric>

#include "support/math.h"

namespace tw::construct {
namespace {

using enum FactorKind;

constexpr size_t kMaxTiles = 12;       // candidates of a problem
constexpr int64_t kVectorColumns = 4;  // f32 of one access

constexpr WarpTile kWarpTiles[] = {{2, 4, 4, 8}, {4, 2, 4, 8}, {2, 2, 4, 8}, {2, 4, 4, 4}, {2, 2, 4, 4}, {2, 2, 2, 8},
                                   {4, 2, 2, 4}, {2, 2, 2, 4}, {2, 2, 2, 2}, {1, 4, 2, 2}, {1, 4, 1, 2}, {1, 2, 1, 2}};

constexpr GroupTile kGroupTiles[] = {{2, 1, 256}, {2, 2, 128}, {2, 1, 192}, {2, 1, 128}, {2, 2, 64}, {2, 1, 64},
                                     {1, 2, 64},  {1, 1, 256}, {1, 1, 128}, {1, 1, 64},  {1, 1, 32}};

// Threads' own tiles: threads of rows and columns, rows and vectors of a thread.
struct ThreadTile {
  int64_t row_threads, column_threads, rows, vectors;
};
constexpr ThreadTile kThreadTiles[] = {{16, 16, 8, 2}, {16, 16, 4, 1}, {8, 16, 4, 1}, {8, 8, 4, 1}, {8, 8, 2, 1}};

// Narrow products of a batch beside each other: warps of rows and of the batch, instructions of a warp along rows.
struct PackedTile {
  int64_t row_warps, batch_warps, rows;
};
constexpr PackedTile kPackedTiles[] = {{4, 1, 1}, {4, 1, 2}, {8, 1, 1}, {2, 2, 1}, {2, 2, 2}, {4, 2, 1}, {4, 2, 2}};

// The columns of `eighths` instructions: each leaves pairs of columns with its threads, and the pairs that a thread has
// of several instructions are neighbours, up to `neighbours` columns.
void add_columns(int64_t eighths, FactorKind kind, int64_t neighbours, std::vector<Factor>& columns) {
  const int64_t together = std::gcd(eighths, neighbours / 2);
  columns.insert(columns.end(), {{eighths / together, kind}, {4, kThreads}, {2 * together, kMatrixVector}});
}

// Whether no block of lines of the last tile begins beyond them: TMA would copy nothing but zeros.
bool fills_blocks(int64_t lines, int64_t tile) { return round_up(lines, tile) - lines < kBlockLines; }

// The tile of `g` with its operands as `problem` has them, up to `neighbours` columns of a thread beside each other.
ThreadBlockTile tile_for(const GemmProblem& problem, const GroupTile& g, int64_t neighbours) {
  const bool in_blocks = problem.columns_beside && g.columns % kBlockLines == 0;
  int64_t columns = g.columns;
  while (in_blocks && !fills_blocks(problem.n, columns)) columns -= kBlockLines;
  ThreadBlockTile tile = in_blocks ? tile_of_blocks(GroupTile{g.groups, g.rows, columns}) : tile_of(g, neighbours);
  tile.tma = problem.tma && (in_blocks || !problem.columns_beside);
  tile.filter_positions = problem.filter_positions;
  tile.halo = problem.halo;
  return tile;
}

// Whether one copy brings the lines that the filter positions of a tile read, and each of its loops of rows has pixels
// in all turns.
bool supports_filter_positions(const ThreadBlockTile& tile, const GemmProblem& problem) {
  if (ThreadBlockTile::extent(tile.rows) + tile.halo > problem.max_lines) return false;
  int64_t stride = 1;
  for (auto f = tile.rows.rbegin(); f != tile.rows.rend(); stride *= f->extent, ++f) {
    const bool whole = problem.pixels % (stride * f->extent) == 0;
    if (f->extent > 1 && whole && problem.pixels - problem.halo <= stride * (f->extent - 1)) return false;
  }
  return true;
}

// The tiles of `g`: alone, and where TMA brings operands also in clusters that share one of them.
void add_tiles(const GroupTile& g, const GemmProblem& problem, std::vector<ThreadBlockTile>& tiles) {
  // Columns that end within a tile are interleaved in more blocks than one: boxes have them in order.
  const bool beyond = problem.tma && g.columns > problem.n;
  const int64_t max = beyond ? std::max<int64_t>(2, problem.n / 8) : problem.neighbours;
  const ThreadBlockTile tile = tile_for(problem, g, std::min(problem.neighbours, max));
  if (tile.filter_positions > 1 && !supports_filter_positions(tile, problem)) return;
  if (tile.tma && problem.rows_beside && !fills_blocks(problem.m, ThreadBlockTile::extent(tile.rows))) return;
  tiles.push_back(tile);
  if (!tile.tma || problem.filter_positions > 1 || problem.kept_bytes > 0) return;
  const auto add_clusters = [&](int64_t extent, const std::vector<Factor>& factors, int64_t ThreadBlockTile::*cluster) {
    for (const int64_t together : {2, 4}) {
      if (ceil_div(extent, ThreadBlockTile::extent(factors)) % together != 0) continue;
      tiles.push_back(tile);
      tiles.back().*cluster = together;
    }
  };
  add_clusters(problem.m, tile.rows, &ThreadBlockTile::row_cluster);
  add_clusters(problem.n, tile.columns, &ThreadBlockTile::column_cluster);
}

ThreadBlockTile tile_of(const ThreadTile& t) {
  ThreadBlockTile tile;
  tile.rows = {{t.rows, kUnrolled}, {t.row_threads, kThreads}};
  tile.columns = {{t.vectors, kUnrolled}, {t.column_threads, kThreads}, {kVectorColumns, kVector}};
  return tile;
}

// Tiles of several products: of all columns, that threads hold up to 64 sums each.
void add_packed(const GemmProblem& problem, std::vector<ThreadBlockTile>& tiles) {
  constexpr int64_t kMaxColumns = 128, kMaxSums = 64;
  const int64_t columns = ceil_div(problem.n, kInstructionColumns);
  for (int64_t count = 2; count * columns * kInstructionColumns <= kMaxColumns; ++count) {
    if (problem.batch % count != 0) continue;
    for (const PackedTile& t : kPackedTiles) {
      ThreadBlockTile tile = tile_of(WarpTile{t.row_warps, 1, t.rows, columns}, problem.neighbours);
      tile.batch = {{t.batch_warps, kThreads}, {count / t.batch_warps, kUnrolled}};
      if (count % t.batch_warps == 0 && cost::sums_of_thread(tile) <= kMaxSums) tiles.push_back(std::move(tile));
    }
  }
}

// K of a k-block, between two loads: the most that do not add more than a sixth of zeros. Warp groups read lines of
// 128 bytes.
int64_t tile_k_of(const GemmProblem& problem, const ThreadBlockTile& tile) {
  constexpr int64_t kLineBytes = 128, kMaxThreadTileK = 32;
  const int64_t max = tile.by_matrix() ? kLineBytes / problem.bytes : kMaxThreadTileK;
  if (tile.multiplier == Multiplier::kWarpGroup) return max;
  for (int64_t block = max; block > kMatrixSteps; block -= kMatrixSteps) {
    if (6 * ceil_div(problem.k, block) * block <= 7 * problem.k) return block;
  }
  return kMatrixSteps;
}

// Threads fill a copy of the buffers while the instructions of warp groups still use two.
int64_t min_stages(const ThreadBlockTile& tile) {
  return tile.tma ? 1 : tile.multiplier == Multiplier::kWarpGroup ? 3 : 2;
}

// Blocks of steps under way at once, no more than there are: as many as leave room for `at_once` tiles, but, with up to
// two of those, no less than keep instructions busy. One more is in use while instructions of warp groups run on.
int64_t stages_of(const ThreadBlockTile& tile, const GemmProblem& problem, const TargetInfo& target, int64_t at_once) {
  constexpr int64_t kFew = 4, kMany = 8;
  const int64_t room = target.levels.front().capacity_bytes / at_once - target.sm.reserved_bytes;
  const bool busy = tile.multiplier == Multiplier::kWarpGroup && tile.filter_positions == 1 && at_once <= 2;
  const int64_t min = std::max(min_stages(tile), busy ? kFew : int64_t{2});
  const int64_t stages = std::clamp<int64_t>(room / tile.shared_bytes(problem.bytes), min, tile.tma ? kMany : kFew);
  if (tile.persistent_blocks > 0) return stages;  // those of the next tile follow
  return std::min(stages, std::max(min_stages(tile), ceil_div(problem.k, tile.tile_k)));
}

// Whether a block that walks over tiles, `together` of them at a time, has the memory and registers that it needs.
bool fit_together(const ThreadBlockTile& tile, const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kQuarter = 4 * kWarpThreads;       // register allocation: by warps of the four SM partitions
  constexpr int64_t kOthers = 32, kMaxThreads = 1024;  // registers of a thread beside its sums; threads of a block
  const int64_t bytes = tile.stages * tile.shared_bytes(problem.bytes) + target.sm.reserved_bytes;
  const int64_t threads = tile.threads() * tile.together + kWarpThreads;
  const int64_t registers = target.sm.registers / (ceil_div(threads, kQuarter) * kQuarter) / 8 * 8;
  return bytes <= target.levels.front().capacity_bytes && cost::sums_of_thread(tile) + kOthers <= registers &&
         threads <= kMaxThreads && cost::tiles_of(tile, problem) > tile.persistent_blocks * tile.together;
}

// Adds `tile` for blocks that walk over tiles: as many of these together as fit, and two.
void add_walking(ThreadBlockTile tile, const GemmProblem& problem, const TargetInfo& target,
                 std::vector<ThreadBlockTile>& all) {
  constexpr int64_t kMaxTogether = 4, kMaxCluster = 2;  // more do not have a block on each SM all the time
  const int64_t cluster = tile.row_cluster * tile.column_cluster;
  if (cluster > kMaxCluster) return;
  tile.persistent_blocks = std::max(cluster, target.compute_units / cluster * cluster);
  tile.stages = stages_of(tile, problem, target, 1);
  for (tile.together = kMaxTogether; tile.together > 0; --tile.together) {
    if (!fit_together(tile, problem, target)) continue;
    all.push_back(tile);
    if (tile.together <= 2) break;
    tile.together = 3;
  }
}

// `tile` with as many k-blocks under way as leave room for one or two tiles beside each other, and, where TMA
// brings them, for more: short sums spend much of their time before and behind their k-blocks.
std::vector<ThreadBlockTile> staged(ThreadBlockTile tile, const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kMaxTilesAtOnce = 4;
  const bool few = tile.tma && cost::tiles_of(tile, problem) <= target.compute_units;
  const int64_t min = few || tile.filter_positions > 1 ? 1 : 2, max = few ? 1 : tile.tma ? kMaxTilesAtOnce : 2;
  std::vector<ThreadBlockTile> all;
  for (int64_t at_once = min; at_once <= max; ++at_once) {
    tile.stages = stages_of(tile, problem, target, at_once);
    const int64_t bytes = tile.stages * tile.shared_bytes(problem.bytes) + target.sm.reserved_bytes;
    const bool known = !all.empty() && all.back().stages == tile.stages;
    if (!known && bytes <= target.levels.front().capacity_bytes) all.push_back(tile);
  }
  if (!tile.tma || tile.kept_bytes > 0) return all;
  add_walking(tile, problem, target, all);
  if (tile.row_cluster * tile.column_cluster > 1 || problem.batch > 1 || problem.columns_beside ||
      problem.n > ThreadBlockTile::extent(tile.columns))
    return all;
  TargetInfo rest = target;
  rest.levels.front().capacity_bytes -= tile.columns_bytes(problem.k, problem.bytes);
  tile.columns_stay = true;
  if (rest.levels.front().capacity_bytes > 0) add_walking(tile, problem, rest, all);
  return all;
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

std::vector<ThreadBlockTile> thread_block_tiles(const GemmProblem& problem, const TargetInfo& target) {
  std::vector<ThreadBlockTile> shapes, tiles;
  if (problem.by_matrix) {
    if (has_feature(target, "wgmma")) {
      for (const GroupTile& g : kGroupTiles) add_tiles(g, problem, shapes);
    }
    if (problem.filter_positions == 1) {
      for (const WarpTile& w : kWarpTiles) shapes.push_back(tile_of(w, problem.neighbours));
      if (problem.packs && problem.kept_bytes == 0) add_packed(problem, shapes);
    }
  } else {
    for (const ThreadTile& t : kThreadTiles) shapes.push_back(tile_of(t));
  }
  for (ThreadBlockTile& tile : shapes) {
    const int64_t rows = ThreadBlockTile::extent(tile.rows);
    if (problem.kept_bytes > 0 && (rows < problem.m || rows >= 2 * problem.m)) continue;
    tile.tile_k = tile_k_of(problem, tile);
    const bool alone = tile.row_cluster * tile.column_cluster * tile.filter_positions == 1 && tile.batch.empty();
    std::vector<int64_t> ways = {problem.kept_bytes};
    if (alone && problem.kept_bytes == 0 && problem.odd_bytes > 0) ways.push_back(problem.odd_bytes);
    for (const int64_t kept : ways) {
      tile.kept_bytes = kept;
      TargetInfo rest = target;
      rest.levels.front().capacity_bytes -= rows * (ThreadBlockTile::extent(tile.columns) + kBankBytes) * kept;
      std::ranges::copy(staged(tile, problem, rest), std::back_inserter(tiles));
    }
  }
  std::ranges::stable_sort(tiles, {},
                           [&](const ThreadBlockTile& t) { return cost::predicted_cycles(t, problem, target); });
  if (tiles.size() > kMaxTiles) tiles.resize(kMaxTiles);
  return tiles;
}

std::vector<ThreadBlockTile> row_tiles(const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kWays[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};  // warp groups, instructions (64 rows) of a group
  constexpr int64_t kWarps[][2] = {{4, 1}, {8, 1}, {4, 2}, {8, 2}, {2, 2}, {2, 4}};  // the same of warps (16 rows)
  const int64_t columns = round_up(problem.n, kMatrixSteps);
  std::vector<ThreadBlockTile> shapes, tiles;
  if (has_feature(target, "wgmma")) {
    for (const auto& [groups, rows] : kWays) shapes.push_back(tile_for(problem, GroupTile{groups, rows, columns}, 2));
  }
  for (const auto& [warps, rows] : kWarps)
    shapes.push_back(tile_of(WarpTile{warps, 1, rows, columns / kInstructionColumns}, 2));
  for (ThreadBlockTile& tile : shapes) {
    tile.filter_positions = problem.filter_positions;
    tile.halo = problem.halo;
    if (problem.filter_positions > 1 && !(tile.tma && supports_filter_positions(tile, problem))) continue;
    tile.tile_k = tile_k_of(problem, tile);
    std::ranges::copy(staged(tile, problem, target), std::back_inserter(tiles));
  }
  return tiles;
}

}  // namespace tw::construct
