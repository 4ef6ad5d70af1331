#include "tune/construct/block_tile.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/target_features.h"
#include "support/math.h"

namespace tw::tune {
namespace {

// Of one multiprocessor (NVIDIA, "CUDA C++ Programming Guide", arithmetic throughput; H100 data sheet), in a cycle.
constexpr double kGroupProducts = 2048;   // of 16-bit floats by matrix instructions of warp groups
constexpr double kMatrixProducts = 1024;  // by those of warps
constexpr double kProducts = 128;         // of f32 by threads
constexpr double kLoadBytes = 48;         // from the second cache, its share of it (measured on an H100)
constexpr double kSharedBytes = 128;      // from the memory that threads share
constexpr double kTileCycles = 2000;      // entering and leaving a tile
constexpr double kExposed = 0.25;         // share of the shorter times that does not hide behind the longest one

constexpr size_t kMostTiles = 12;      // of a problem
constexpr int64_t kVectorColumns = 4;  // f32 of one access

// Matrix tiles: warps of rows and columns, instructions (16 x 8) of a warp's rows and columns.
struct WarpTile {
  int64_t row_warps, column_warps, rows, columns;
};
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
constexpr std::array<GroupTile, 9> kGroupTiles = {
    {{2, 1, 256}, {2, 2, 128}, {2, 1, 192}, {2, 1, 128}, {2, 1, 64}, {1, 1, 256}, {1, 1, 128}, {1, 1, 64}, {1, 1, 32}}};

// Threads' own tiles: threads of rows and columns, rows and vectors of a thread.
struct ThreadTile {
  int64_t row_threads, column_threads, rows, vectors;
};
constexpr std::array<ThreadTile, 5> kThreadTiles = {
    {{16, 16, 8, 2}, {16, 16, 4, 1}, {8, 16, 4, 1}, {8, 8, 4, 1}, {8, 8, 2, 1}}};

BlockTile tile_of(const WarpTile& w) {
  BlockTile tile;
  tile.rows = {{w.row_warps, Part::kThreads}, {w.rows, Part::kUnrolled}, {2, Part::kMatrix}, {8, Part::kThreads}};
  tile.columns = {
      {w.column_warps, Part::kThreads}, {w.columns, Part::kUnrolled}, {4, Part::kThreads}, {2, Part::kMatrixVector}};
  tile.multiplier = Multiplier::kWarp;
  return tile;
}

BlockTile tile_of(const GroupTile& g) {
  BlockTile tile;
  tile.rows = {{g.groups, Part::kThreads},
               {g.rows, Part::kUnrolled},
               {4, Part::kThreads},
               {2, Part::kMatrix},
               {8, Part::kThreads}};
  tile.columns = {{g.columns / 8, Part::kMatrix}, {4, Part::kThreads}, {2, Part::kMatrixVector}};
  tile.multiplier = Multiplier::kWarpGroup;
  return tile;
}

// The tiles of `g`: alone, and where the copy engine brings operands also in pairs that share one of them.
void add_tiles(const GroupTile& g, const BlockProblem& problem, std::vector<BlockTile>& tiles) {
  BlockTile tile = tile_of(g);
  tile.boxes = problem.boxes;
  tiles.push_back(tile);
  if (!problem.boxes) return;
  const auto pairs = [](int64_t extent, const std::vector<Factor>& factors) {
    return ceil_div(extent, BlockTile::extent(factors)) % 2 == 0;
  };
  if (pairs(problem.rows, tile.rows)) {
    tiles.push_back(tile);
    tiles.back().row_cluster = 2;
  }
  if (pairs(problem.columns, tile.columns)) {
    tiles.push_back(tile);
    tiles.back().column_cluster = 2;
  }
}

BlockTile tile_of(const ThreadTile& t) {
  BlockTile tile;
  tile.rows = {{t.rows, Part::kUnrolled}, {t.row_threads, Part::kThreads}};
  tile.columns = {{t.vectors, Part::kUnrolled}, {t.column_threads, Part::kThreads}, {kVectorColumns, Part::kVector}};
  return tile;
}

// Steps between two loads: the most that do not add more than an eighth of zeros. Warp groups read lines of 128 bytes.
int64_t steps_of(int64_t steps, const BlockTile& tile) {
  constexpr int64_t kMost = 64;
  if (tile.multiplier == Multiplier::kWarpGroup) return kMost;
  for (int64_t block = tile.by_matrix() ? kMost : kMost / 2; block > kMatrixSteps; block -= kMatrixSteps) {
    if (8 * ceil_div(steps, block) * block <= 9 * steps) return block;
  }
  return kMatrixSteps;
}

// Blocks of steps under way at once: as many as leave room for a second tile, but no less than keep instructions busy.
// One more is in use while instructions of warp groups run on.
int64_t stages_of(const BlockTile& tile, const BlockProblem& problem, const TargetInfo& target) {
  constexpr int64_t kMost = 4, kTiles = 2, kReserved = 2048;  // bytes of a tile that the hardware keeps
  const int64_t room = target.levels.front().capacity_bytes / kTiles - kReserved;
  const int64_t least = tile.multiplier == Multiplier::kWarpGroup ? kMost : 2;
  return std::clamp<int64_t>(room / tile.shared_bytes(problem.bytes), least, kMost);
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

int64_t BlockTile::shared_bytes(int64_t bytes) const {
  const int64_t lines = extent(rows) + extent(columns);
  return by_matrix() ? lines * (steps * bytes + line_pad_bytes()) : steps * (lines * bytes + 2 * line_pad_bytes());
}

namespace {

double products_a_cycle(Multiplier m) {
  return m == Multiplier::kWarpGroup ? kGroupProducts : m == Multiplier::kWarp ? kMatrixProducts : kProducts;
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

}  // namespace

double predicted_cycles(const BlockTile& tile, const BlockProblem& p, const TargetInfo& target) {
  const int64_t rows = BlockTile::extent(tile.rows), columns = BlockTile::extent(tile.columns);
  const int64_t tiles = p.batch * ceil_div(p.rows, rows) * ceil_div(p.columns, columns);
  const auto steps = static_cast<double>(ceil_div(p.steps, tile.steps) * tile.steps);
  const double products = static_cast<double>(rows * columns) / products_a_cycle(tile.multiplier);
  const double loads =
      static_cast<double>((rows / tile.column_cluster + columns / tile.row_cluster) * p.bytes) / kLoadBytes;
  const double shared = shared_reads(tile, p) / kSharedBytes;
  const double longest = std::max({products, loads, shared});
  const double a_step = longest + kExposed * (products + loads + shared - longest);
  return static_cast<double>(ceil_div(tiles, std::max(1, target.units))) * (steps * a_step + kTileCycles);
}

std::vector<BlockTile> block_tiles(const BlockProblem& problem, const TargetInfo& target) {
  std::vector<BlockTile> tiles;
  if (problem.is_half) {
    if (has_feature(target, "wgmma")) {
      for (const GroupTile& g : kGroupTiles) add_tiles(g, problem, tiles);
    }
    for (const WarpTile& w : kWarpTiles) tiles.push_back(tile_of(w));
  } else {
    for (const ThreadTile& t : kThreadTiles) tiles.push_back(tile_of(t));
  }
  for (BlockTile& tile : tiles) {
    tile.steps = steps_of(problem.steps, tile);
    tile.stages = stages_of(tile, problem, target);
  }
  std::ranges::stable_sort(tiles, {}, [&](const BlockTile& t) { return predicted_cycles(t, problem, target); });
  if (tiles.size() > kMostTiles) tiles.resize(kMostTiles);
  return tiles;
}

}  // namespace tw::tune
