#include "construct/gpu/thread_block_tile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/model_units.h"
#include "core/target_features.h"
#include "support/math.h"

namespace tw::construct {
namespace {

// Of one multiprocessor (NVIDIA, "CUDA C++ Programming Guide", arithmetic throughput; H100 data sheet), in a cycle.
constexpr double kGroupProducts = 2048;  // of 16-bit floats by matrix instructions of warp groups; half of tf32
constexpr double kProducts = 128;        // of f32 by threads
constexpr double kLoadBytes = 48;        // from the second cache, its share of it (measured on an H100)
constexpr double kSharedBytes = 128;     // from the memory that threads share
constexpr double kScattered = 8;         // times the accesses where results go alone, each to part of a sector
constexpr double kTileCycles = 2000;     // entering and leaving a tile
constexpr double kNextTileCycles = 500;  // going on to the next one
constexpr double kCacheBytes = 24;       // from and to the second cache by accesses of threads, its share
constexpr double kBlockCycles = 450;     // of a block of steps, alone: barriers, loads, instructions one after another
constexpr double kBoxCycles = 300;       // of one that the copy engine brings
constexpr double kPairCycles = 150;  // of a block of steps: tiles of a pair wait for each other (measured on an H100)
constexpr double kExposed = 0.25;    // share of the shorter times that does not hide behind the longest one

constexpr size_t kMostTiles = 12;         // of a problem
constexpr int64_t kLinesTogether = 8;     // of operands of warp groups: where the order of their parts begins again
constexpr int64_t kReservedBytes = 3072;  // of shared memory of a tile, for barriers and for the hardware
constexpr int64_t kVectorColumns = 4;     // f32 of one access
constexpr int64_t kRegisters = 65536;     // of a unit

constexpr std::array<WarpTile, 12> kWarpTiles = {{{2, 4, 4, 8},
                                                  {4, 2, 4, 8},
                                                  {2, 2, 4, 8},
                                                  {2, 4, 4, 4},
                                                  {2, 2, 4, 4},
                                                  {2, 2, 2, 8},
                                                  {4, 2, 2, 4},
                                                  {2, 2, 2, 4},
                                                  {2, 2, 2, 2},
                                                  {1, 4, 2, 2},
                                                  {1, 4, 1, 2},
                                                  {1, 2, 1, 2}}};

// Tiles of warp groups: groups, instructions (64 rows) of a group, columns of an instruction.
struct GroupTile {
  int64_t groups, rows, columns;
};
constexpr std::array<GroupTile, 11> kGroupTiles = {{{2, 1, 256},
                                                    {2, 2, 128},
                                                    {2, 1, 192},
                                                    {2, 1, 128},
                                                    {2, 2, 64},
                                                    {2, 1, 64},
                                                    {1, 2, 64},
                                                    {1, 1, 256},
                                                    {1, 1, 128},
                                                    {1, 1, 64},
                                                    {1, 1, 32}}};

// Threads' own tiles: threads of rows and columns, rows and vectors of a thread.
struct ThreadTile {
  int64_t row_threads, column_threads, rows, vectors;
};
constexpr std::array<ThreadTile, 5> kThreadTiles = {
    {{16, 16, 8, 2}, {16, 16, 4, 1}, {8, 16, 4, 1}, {8, 8, 4, 1}, {8, 8, 2, 1}}};

// The columns of `eighths` instructions: each leaves pairs of columns with its threads, and the pairs that a thread has
// of several instructions are neighbours, up to `neighbours` columns.
void add_columns(int64_t eighths, Part part, int64_t neighbours, std::vector<Factor>& columns) {
  const int64_t together = std::gcd(eighths, neighbours / 2);
  columns.insert(columns.end(), {{eighths / together, part}, {4, Part::kThreads}, {2 * together, Part::kMatrixVector}});
}

}  // namespace

BlockTile tile_of(const WarpTile& w, int64_t neighbours) {
  BlockTile tile;
  tile.rows = {{w.row_warps, Part::kThreads}, {w.rows, Part::kUnrolled}, {2, Part::kMatrix}, {8, Part::kThreads}};
  tile.columns = {{w.column_warps, Part::kThreads}};
  add_columns(w.columns, Part::kUnrolled, neighbours, tile.columns);
  tile.multiplier = Multiplier::kWarp;
  return tile;
}

namespace {

BlockTile tile_of(const GroupTile& g, int64_t neighbours) {
  BlockTile tile;
  tile.rows = {{g.groups, Part::kThreads},
               {g.rows, Part::kUnrolled},
               {4, Part::kThreads},
               {2, Part::kMatrix},
               {8, Part::kThreads}};
  add_columns(g.columns / 8, Part::kMatrix, neighbours, tile.columns);
  tile.multiplier = Multiplier::kWarpGroup;
  return tile;
}

// Whether one copy brings the lines that the taps of a tile read, and each of its loops of rows has pixels in all
// turns.
bool holds_taps(const BlockTile& tile, const BlockProblem& problem) {
  if (BlockTile::extent(tile.rows) + tile.reach > problem.most_lines) return false;
  int64_t stride = 1;
  for (auto f = tile.rows.rbegin(); f != tile.rows.rend(); stride *= f->extent, ++f) {
    const bool whole = problem.pixels % (stride * f->extent) == 0;
    if (f->extent > 1 && whole && problem.pixels - problem.reach <= stride * (f->extent - 1)) return false;
  }
  return true;
}

// The tiles of `g`: alone, and where the copy engine brings operands also in clusters that share one of them.
void add_tiles(const GroupTile& g, const BlockProblem& problem, std::vector<BlockTile>& tiles) {
  // Columns that end within a tile are dealt out in more blocks than one: boxes have them in order.
  const bool beyond = problem.boxes && g.columns > problem.columns;
  const int64_t most = beyond ? std::max<int64_t>(2, problem.columns / 8) : problem.neighbours;
  BlockTile tile = tile_of(g, std::min(problem.neighbours, most));
  tile.boxes = problem.boxes;
  tile.taps = problem.taps;
  tile.reach = problem.reach;
  if (tile.taps > 1 && !holds_taps(tile, problem)) return;
  tiles.push_back(tile);
  if (!problem.boxes || problem.taps > 1 || problem.kept_bytes > 0) return;
  const auto add_clusters = [&](int64_t extent, const std::vector<Factor>& factors, int64_t BlockTile::*cluster) {
    for (const int64_t together : {2, 4}) {
      if (ceil_div(extent, BlockTile::extent(factors)) % together != 0) continue;
      tiles.push_back(tile);
      tiles.back().*cluster = together;
    }
  };
  add_clusters(problem.rows, tile.rows, &BlockTile::row_cluster);
  add_clusters(problem.columns, tile.columns, &BlockTile::column_cluster);
}

BlockTile tile_of(const ThreadTile& t) {
  BlockTile tile;
  tile.rows = {{t.rows, Part::kUnrolled}, {t.row_threads, Part::kThreads}};
  tile.columns = {{t.vectors, Part::kUnrolled}, {t.column_threads, Part::kThreads}, {kVectorColumns, Part::kVector}};
  return tile;
}

int64_t sums_of_thread(const BlockTile& tile) {
  return BlockTile::extent(tile.rows) * BlockTile::extent(tile.columns) / tile.threads();
}

int64_t tiles_of(const BlockTile& tile, const BlockProblem& p) {
  return p.batch * ceil_div(p.rows, BlockTile::extent(tile.rows)) *
         ceil_div(p.columns, BlockTile::extent(tile.columns));
}

// Steps between two loads: the most that do not add more than an eighth of zeros. Warp groups read lines of 128 bytes.
int64_t steps_of(const BlockProblem& problem, const BlockTile& tile) {
  constexpr int64_t kLineBytes = 128, kMostOfThreads = 32;
  const int64_t most = tile.by_matrix() ? kLineBytes / problem.bytes : kMostOfThreads;
  if (tile.multiplier == Multiplier::kWarpGroup) return most;
  for (int64_t block = most; block > kMatrixSteps; block -= kMatrixSteps) {
    if (8 * ceil_div(problem.steps, block) * block <= 9 * problem.steps) return block;
  }
  return kMatrixSteps;
}

// Threads fill a copy of the buffers while the instructions of warp groups still use two.
int64_t fewest_stages(const BlockTile& tile) {
  return tile.boxes ? 1 : tile.multiplier == Multiplier::kWarpGroup ? 3 : 2;
}

// Blocks of steps under way at once, no more than there are: as many as leave room for `at_once` tiles, but, with up to
// two of those, no less than keep instructions busy. One more is in use while instructions of warp groups run on.
int64_t stages_of(const BlockTile& tile, const BlockProblem& problem, const TargetInfo& target, int64_t at_once) {
  constexpr int64_t kFew = 4, kMany = 8;
  const int64_t room = target.levels.front().capacity_bytes / at_once - kReservedBytes;
  const bool busy = tile.multiplier == Multiplier::kWarpGroup && tile.taps == 1 && at_once <= 2;
  const int64_t least = std::max(fewest_stages(tile), busy ? kFew : int64_t{2});
  const int64_t stages = std::clamp<int64_t>(room / tile.shared_bytes(problem.bytes), least, tile.boxes ? kMany : kFew);
  if (tile.units > 0) return stages;  // those of the next tile follow
  return std::min(stages, std::max(fewest_stages(tile), ceil_div(problem.steps, tile.steps)));
}

// Whether a block that walks over tiles, `together` of them at a time, has the memory and registers that it needs.
bool fit_together(const BlockTile& tile, const BlockProblem& problem, const TargetInfo& target) {
  constexpr int64_t kQuarter = 4 * kWarpThreads;        // warps have registers of one of four parts of a unit
  constexpr int64_t kOthers = 32, kMostThreads = 1024;  // registers of a thread beside its sums; threads of a block
  const int64_t bytes = tile.stages * tile.shared_bytes(problem.bytes) + kReservedBytes;
  const int64_t threads = tile.threads() * tile.together + kWarpThreads;
  const int64_t registers = kRegisters / (ceil_div(threads, kQuarter) * kQuarter) / 8 * 8;
  return bytes <= target.levels.front().capacity_bytes && sums_of_thread(tile) + kOthers <= registers &&
         threads <= kMostThreads && tiles_of(tile, problem) > tile.units * tile.together;
}

// `tile` with as many blocks of steps under way as leave room for one or two tiles beside each other, and, where the
// copy engine brings them, for more: short sums spend much of their time before and behind their blocks of steps.
std::vector<BlockTile> staged(BlockTile tile, const BlockProblem& problem, const TargetInfo& target) {
  constexpr int64_t kMostAtOnce = 4;
  const bool few = tile.boxes && tiles_of(tile, problem) <= target.units;
  const int64_t fewest = few || tile.taps > 1 ? 1 : 2, most = few ? 1 : tile.boxes ? kMostAtOnce : 2;
  std::vector<BlockTile> all;
  for (int64_t at_once = fewest; at_once <= most; ++at_once) {
    tile.stages = stages_of(tile, problem, target, at_once);
    const int64_t bytes = tile.stages * tile.shared_bytes(problem.bytes) + kReservedBytes;
    const bool known = !all.empty() && all.back().stages == tile.stages;
    if (!known && bytes <= target.levels.front().capacity_bytes) all.push_back(tile);
  }
  if (!tile.boxes || tile.row_cluster * tile.column_cluster > 1 || tile.kept_bytes > 0) return all;
  tile.units = std::max(1, target.units);
  tile.stages = stages_of(tile, problem, target, 1);
  for (tile.together = kMostAtOnce; tile.together > 0; --tile.together) {  // as many as fit, and two
    if (!fit_together(tile, problem, target)) continue;
    all.push_back(tile);
    if (tile.together <= 2) break;
    tile.together = 3;
  }
  return all;
}

}  // namespace

int64_t BlockTile::extent(const std::vector<Factor>& factors) {
  int64_t all = 1;
  for (const Factor& f : factors) all *= f.extent;
  return all;
}

int64_t BlockTile::threads() const {
  int64_t all = 1;
  for (const auto* factors : {&rows, &columns}) {
    for (const Factor& f : *factors) all *= f.part == Part::kThreads ? f.extent : 1;
  }
  return all;
}

// Threads of a warp read whole lines at once: of 16-bit floats 16 bytes of each of 8 lines, of f32 64 of each of 2.
int64_t BlockTile::line_pad_bytes(int64_t bytes) const {
  constexpr int64_t kBanksBytes = 128;
  if (multiplier == Multiplier::kWarp && bytes == 4) return steps * bytes % kBanksBytes == 0 ? kBanksBytes / 2 : 0;
  return multiplier == Multiplier::kWarpGroup ? 0 : kBankBytes;
}

int64_t BlockTile::shared_bytes(int64_t bytes) const {
  const int64_t lines = extent(rows) + ceil_div(reach, kLinesTogether) * kLinesTogether + extent(columns) * taps;
  const int64_t pad = line_pad_bytes(bytes);
  return by_matrix() ? lines * (steps * bytes + pad) : steps * (lines * bytes + 2 * pad);
}

namespace {

double products_a_cycle(Multiplier m, int64_t bytes) {
  if (m == Multiplier::kThread) return kProducts;
  return (m == Multiplier::kWarpGroup ? kGroupProducts : kMatrixProducts) * 2 / static_cast<double>(bytes);
}

// Bytes that are read of the operands for one step: each warp its rows and columns, each instruction of a group.
double shared_reads(const BlockTile& tile, const BlockProblem& p) {
  constexpr int64_t kGroupRows = 64;
  const int64_t rows = BlockTile::extent(tile.rows), columns = BlockTile::extent(tile.columns);
  if (tile.multiplier == Multiplier::kThread) return static_cast<double>((rows + columns) * p.bytes);
  if (tile.multiplier == Multiplier::kWarpGroup)
    return static_cast<double>((rows + columns * rows / kGroupRows) * p.bytes);
  const int64_t row_warps = tile.rows.front().extent, column_warps = tile.columns.front().extent;
  return static_cast<double>((rows * column_warps + columns * row_warps) * p.bytes);
}

// How many tiles one unit runs at once, so that one computes while another loads or stores.
int64_t tiles_at_once(const BlockTile& tile, const BlockProblem& p, const TargetInfo& target) {
  constexpr int64_t kOthers = 64, kMostAtOnce = 8;  // registers of a thread beside its sums
  const int64_t by_registers = kRegisters / (tile.threads() * (sums_of_thread(tile) + kOthers));
  const int64_t by_memory = target.levels.front().capacity_bytes / (tile.shared_bytes(p.bytes) * tile.stages);
  return std::clamp<int64_t>(std::min(by_registers, by_memory), 1, kMostAtOnce);
}

// Of all sums, or of what tiles make of the sums that they keep: a row of f32.
int64_t stored_bytes(const BlockProblem& p) {
  constexpr int64_t kF32 = 4;
  return p.kept_bytes > 0 ? p.batch * p.columns * kF32 : p.batch * p.rows * p.columns * p.result_bytes;
}

// Bytes of its results that a unit stores or loads again in a cycle: parts of sums stay in the second cache.
double result_rate(const BlockProblem& p, const TargetInfo& target) {
  const int64_t bytes = stored_bytes(p);
  return p.parts > 1 && 2 * bytes <= target.levels[1].capacity_bytes ? kCacheBytes : kMemoryBytes;
}

// Of the kernel that adds the parts of sums.
double adding_cycles(const BlockProblem& p, const TargetInfo& target) {
  if (p.parts == 1) return 0;
  const double of_parts = static_cast<double>(stored_bytes(p)) / result_rate(p, target);
  const auto sums = static_cast<double>(p.batch * p.rows * p.columns / p.parts);
  const double of_sums = sums * static_cast<double>(p.added_bytes) / kMemoryBytes;
  return kKernelCycles + (of_parts + of_sums) / std::max(1, target.units);
}

// Of a block that walks over its share of `tiles`: its teams multiply one after the other, and store meanwhile.
double walking_cycles(const BlockTile& tile, int64_t tiles, double products, double results) {
  const double alone = (products + results + kNextTileCycles) / static_cast<double>(tile.together);
  return kTileCycles + static_cast<double>(ceil_div(tiles, tile.units)) * std::max({products, results, alone});
}

}  // namespace

double predicted_cycles(const BlockTile& tile, const BlockProblem& p, const TargetInfo& target) {
  const int64_t rows = BlockTile::extent(tile.rows), columns = BlockTile::extent(tile.columns);
  const int64_t tiles = tiles_of(tile, p);
  const auto steps = static_cast<double>(ceil_div(p.steps, tile.steps) * tile.steps);
  const double products = static_cast<double>(rows * columns * p.taps) / products_a_cycle(tile.multiplier, p.bytes);
  const int64_t lines = (rows + p.reach) / tile.column_cluster + columns * p.taps / tile.row_cluster;
  const double loads = static_cast<double>(lines * p.bytes) / kLoadBytes;
  const double shared = static_cast<double>(p.taps) * shared_reads(tile, p) / kSharedBytes;
  const double longest = std::max({products, loads, shared});
  const auto cluster = static_cast<double>(tile.row_cluster * tile.column_cluster);
  const double waits = kPairCycles * std::log2(cluster) / static_cast<double>(tile.steps);
  const double a_step = waits + longest + kExposed * (products + loads + shared - longest);
  const double scattered = p.odd_bytes > 0 && tile.kept_bytes == 0 ? kScattered : 1;
  const double results = scattered * static_cast<double>(rows * columns * p.result_bytes) / result_rate(p, target);
  const int64_t units = std::max(1, target.units);
  // The tiles of a unit share its throughput; each has what it takes to enter and to leave to itself.
  const int64_t at_once = std::min(tiles_at_once(tile, p, target), ceil_div(tiles, units));
  const auto waves = static_cast<double>(ceil_div(tiles, units * at_once));
  const auto together = static_cast<double>(at_once);
  const double blocks = static_cast<double>(ceil_div(p.steps, tile.steps)) * (tile.boxes ? kBoxCycles : kBlockCycles);
  const double of_tile = std::max(steps * a_step, blocks);
  const double all = tile.units > 0
                         ? walking_cycles(tile, tiles, of_tile, results)
                         : waves * (std::max(together * steps * a_step, blocks) + together * results + kTileCycles);
  const double memory = static_cast<double>(p.operand_bytes) / (kMemoryBytes * static_cast<double>(units));
  return std::max(all, memory) + kExposed * std::min(all, memory) + adding_cycles(p, target);
}

std::vector<BlockTile> block_tiles(const BlockProblem& problem, const TargetInfo& target) {
  std::vector<BlockTile> tiles;
  if (problem.by_matrix) {
    if (has_feature(target, "wgmma")) {
      for (const GroupTile& g : kGroupTiles) add_tiles(g, problem, tiles);
    }
    if (problem.taps == 1) {
      for (const WarpTile& w : kWarpTiles) tiles.push_back(tile_of(w, problem.neighbours));
    }
  } else {
    for (const ThreadTile& t : kThreadTiles) tiles.push_back(tile_of(t));
  }
  std::vector<BlockTile> shapes = std::move(tiles);
  tiles.clear();
  for (BlockTile& tile : shapes) {
    const int64_t rows = BlockTile::extent(tile.rows);
    if (problem.kept_bytes > 0 && (rows < problem.rows || rows >= 2 * problem.rows)) continue;
    tile.steps = steps_of(problem, tile);
    const bool alone = tile.row_cluster * tile.column_cluster * tile.taps == 1;
    std::vector<int64_t> ways = {problem.kept_bytes};
    if (alone && problem.kept_bytes == 0 && problem.odd_bytes > 0) ways.push_back(problem.odd_bytes);
    for (const int64_t kept : ways) {
      tile.kept_bytes = kept;
      TargetInfo rest = target;
      rest.levels.front().capacity_bytes -= rows * (BlockTile::extent(tile.columns) + kBankBytes) * kept;
      std::ranges::copy(staged(tile, problem, rest), std::back_inserter(tiles));
    }
  }
  std::ranges::stable_sort(tiles, {}, [&](const BlockTile& t) { return predicted_cycles(t, problem, target); });
  if (tiles.size() > kMostTiles) tiles.resize(kMostTiles);
  return tiles;
}

}  // namespace tw::construct
