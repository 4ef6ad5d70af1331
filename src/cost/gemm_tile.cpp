#include "cost/gemm_tile.h"

#include <cmath>

#include "cost/banks.h"
#include "cost/units.h"
#include "support/math.h"

namespace tw::cost {

double products_a_cycle(Multiplier m, int64_t bytes, const SmRates& sm) {
  if (m == Multiplier::kThread) return sm.thread_products;
  return (m == Multiplier::kWarpGroup ? sm.group_products : sm.warp_products) * 2 / static_cast<double>(bytes);
}

int64_t sums_of_thread(const ThreadBlockTile& tile) { return tile.num_sums() / tile.threads(); }

int64_t tiles_of(const ThreadBlockTile& tile, const GemmProblem& p) {
  return p.batch / ThreadBlockTile::extent(tile.batch) * ceil_div(p.m, ThreadBlockTile::extent(tile.rows)) *
         ceil_div(p.n, ThreadBlockTile::extent(tile.columns));
}

int64_t ThreadBlockTile::extent(const std::vector<Factor>& factors) {
  int64_t all = 1;
  for (const Factor& f : factors) all *= f.extent;
  return all;
}

int64_t ThreadBlockTile::threads() const {
  int64_t all = 1;
  for (const auto* factors : {&batch, &rows, &columns}) {
    for (const Factor& f : *factors) all *= f.kind == FactorKind::kThreads ? f.extent : 1;
  }
  return all;
}

// Threads of a warp read 16 bytes of each of 8 lines at once, of tf32 64 of each of 2. Those that multiply by
// themselves store 16 bytes of each of 8 lines, which are 4 apart.
int64_t ThreadBlockTile::line_pad_bytes(int64_t elements, int64_t bytes) const {
  constexpr int64_t kAccess = 16, kSteps = 4, kLines = 8;
  BankAccess access{.line_bytes = elements * bytes, .lines = kLines, .bytes = kAccess};
  if (multiplier == Multiplier::kWarpGroup) return 0;
  if (multiplier == Multiplier::kThread)
    access.apart = kSteps;
  else if (bytes == 4)
    access.lines = 2, access.bytes = 4 * kAccess;
  return bank_padding(access, kAccess);
}

// Lanes of four threads store pairs of columns, those of an instruction eight rows.
int64_t ThreadBlockTile::kept_pad_bytes() const {
  constexpr int64_t kPair = 2, kLanes = 4;
  return bank_padding(
      {.line_bytes = extent(columns) * kept_bytes, .lines = kInstructionColumns, .bytes = kLanes * kPair * kept_bytes},
      kPair * kept_bytes);
}

int64_t ThreadBlockTile::kept_shared_bytes() const {
  return kept_bytes == 0 ? 0 : extent(rows) * (extent(columns) * kept_bytes + kept_pad_bytes());
}

int64_t ThreadBlockTile::shared_bytes(int64_t bytes) const {
  constexpr int64_t kLinesTogether = 8;  // of a swizzle atom, wgmma operands
  int64_t lines = extent(rows) + ceil_div(halo, kLinesTogether) * kLinesTogether;
  lines += columns_stay ? 0 : extent(columns) * filter_positions;
  const auto padded = [&](int64_t elements) { return elements * bytes + line_pad_bytes(elements, bytes); };
  const int64_t products = extent(batch);
  if (products > 1) return extent(rows) * padded(products * tile_k) + products * extent(columns) * padded(tile_k);
  return by_matrix() ? lines * padded(tile_k) : tile_k * (padded(extent(rows)) + padded(extent(columns)));
}

int64_t ThreadBlockTile::columns_bytes(int64_t k, int64_t bytes) const {
  return round_up(k, tile_k) * extent(columns) * filter_positions * bytes;
}

namespace {

// Bytes that are read of the operands for one step: each warp its rows and columns, each instruction of a group.
double shared_reads(const ThreadBlockTile& tile, const GemmProblem& p) {
  const int64_t rows = ThreadBlockTile::extent(tile.rows), columns = ThreadBlockTile::extent(tile.columns);
  const int64_t products = ThreadBlockTile::extent(tile.batch);
  if (tile.multiplier == Multiplier::kWarpGroup)
    return static_cast<double>((rows + columns * rows / kGroupRows) * p.bytes);
  int64_t row_warps = tile.rows.front().extent, column_warps = tile.columns.front().extent;
  if (tile.multiplier == Multiplier::kThread) {  // neighbours of a warp lie along columns first
    const int64_t along = tile.columns[1].extent;
    row_warps = ceil_div(tile.rows.back().extent, ceil_div(kWarpThreads, along));
    column_warps = ceil_div(along, kWarpThreads);
  }
  return static_cast<double>(products * (rows * column_warps + columns * row_warps) * p.bytes);
}

// How many tiles one SM runs at once, so that one computes while another loads or stores.
int64_t tiles_at_once(const ThreadBlockTile& tile, const GemmProblem& p, const TargetInfo& target) {
  constexpr int64_t kOthers = 64, kMaxTilesAtOnce = 8;  // registers of a thread beside its sums
  const int64_t by_registers = target.sm.registers / (tile.threads() * (sums_of_thread(tile) + kOthers));
  const int64_t by_memory = target.levels.front().capacity_bytes / (tile.shared_bytes(p.bytes) * tile.stages);
  return std::clamp<int64_t>(std::min(by_registers, by_memory), 1, kMaxTilesAtOnce);
}

// Of the partitions of an SM, each of which multiplies for its own warps, the share that has some.
double busy_partitions(const ThreadBlockTile& tile, int64_t at_once) {
  constexpr int64_t kPartitions = 4;
  const int64_t warps = tile.threads() / kWarpThreads * (tile.persistent_blocks > 0 ? tile.together : at_once);
  return static_cast<double>(std::min(warps, kPartitions)) / kPartitions;
}

// Of all sums, or of what tiles make of the sums that they keep: a row of f32.
int64_t stored_bytes(const GemmProblem& p) {
  constexpr int64_t kF32 = 4;
  return p.kept_bytes > 0 ? p.batch * p.n * kF32 : p.batch * p.m * p.n * p.result_bytes;
}

// Bytes of its results that an SM stores or loads again in a cycle: split-K partial sums stay in L2.
double result_rate(const GemmProblem& p, const TargetInfo& target) {
  const int64_t bytes = stored_bytes(p);
  return p.split_k > 1 && 2 * bytes <= target.levels[1].capacity_bytes ? l2_by_threads(target) : target.sm.dram_share;
}

// Of the kernel that adds the split-K partial sums.
double adding_cycles(const GemmProblem& p, const TargetInfo& target) {
  if (p.split_k == 1) return 0;
  const double of_parts = static_cast<double>(stored_bytes(p)) / result_rate(p, target);
  const auto sums = static_cast<double>(p.batch * p.m * p.n / p.split_k);
  const double of_sums = sums * static_cast<double>(p.added_bytes) / target.sm.dram_share;
  return target.sm.kernel_cycles + (of_parts + of_sums) / std::max(1, target.compute_units);
}

// Of a block that walks over its share of `tiles`: its consumers multiply one after the other, and store meanwhile.
double walking_cycles(const ThreadBlockTile& tile, int64_t tiles, double products, double results) {
  const double alone = (products + results + kNextTileCycles) / static_cast<double>(tile.together);
  return kTileCycles +
         static_cast<double>(ceil_div(tiles, tile.persistent_blocks)) * std::max({products, results, alone});
}

}  // namespace

double predicted_cycles(const ThreadBlockTile& tile, const GemmProblem& p, const TargetInfo& target) {
  const int64_t rows = ThreadBlockTile::extent(tile.rows), columns = ThreadBlockTile::extent(tile.columns);
  const int64_t tiles = tiles_of(tile, p), packed = ThreadBlockTile::extent(tile.batch);
  const auto steps = static_cast<double>(ceil_div(p.k, tile.tile_k) * tile.tile_k);
  const int64_t sms = std::max(1, target.compute_units);
  // The tiles of an SM share its throughput; each has what it takes to enter and to leave to itself.
  const int64_t at_once = std::min(tiles_at_once(tile, p, target), ceil_div(tiles, sms));
  const double busy = busy_partitions(tile, at_once);
  const double products = static_cast<double>(tile.num_sums() * p.filter_positions) /
                          (busy * products_a_cycle(tile.multiplier, p.bytes, target.sm));
  const int64_t lines =
      (rows + p.halo) / tile.column_cluster + (tile.columns_stay ? 0 : columns * p.filter_positions / tile.row_cluster);
  const double loads = static_cast<double>(packed * lines * p.bytes) / target.sm.l2_share;
  const double shared = static_cast<double>(p.filter_positions) * shared_reads(tile, p) / target.sm.shared_bytes;
  const double longest = std::max({products, loads, shared});
  const auto cluster = static_cast<double>(tile.row_cluster * tile.column_cluster);
  const double wait =
      kClusterCycles * (tile.persistent_blocks > 0 ? kWalkingClusters * static_cast<double>(tile.together) : 1);
  const double waits = wait * std::log2(cluster) / static_cast<double>(tile.tile_k);
  const double a_step = waits + longest + kUnoverlapped * (products + loads + shared - longest);
  const double scattered = p.odd_bytes > 0 && tile.kept_bytes == 0 ? kScattered : 1;
  const double results = scattered * static_cast<double>(tile.num_sums() * p.result_bytes) / result_rate(p, target);
  const auto waves = static_cast<double>(ceil_div(tiles, sms * at_once));
  const auto together = static_cast<double>(at_once);
  const double blocks = static_cast<double>(ceil_div(p.k, tile.tile_k)) * (tile.tma ? kTmaCycles : kCopyCycles);
  const double of_tile = std::max(steps * a_step, blocks);
  const double all = tile.persistent_blocks > 0
                         ? walking_cycles(tile, tiles, of_tile, results)
                         : waves * (std::max(together * steps * a_step, blocks) + together * results + kTileCycles);
  const double once =
      tile.columns_stay ? static_cast<double>(tile.columns_bytes(p.k, p.bytes)) / target.sm.l2_share : 0;
  const double memory = static_cast<double>(p.operand_bytes) / (target.sm.dram_share * static_cast<double>(sms));
  return overlapped(all, memory, kUnoverlapped) + once + adding_cycles(p, target);
}

double template_cycles(const TemplateTile& tile, const GemmProblem& p, const TargetInfo& target) {
  constexpr int kHalf = 2;
  const SmRates& sm = target.sm;
  const bool groups = tile.row_warps == 0, stream_k = tile.shared_steps > 0;
  const double units = target.compute_units, m = tile.m, n = tile.n;
  const auto tiles = static_cast<double>(ceil_div(p.m, tile.m) * ceil_div(p.n, tile.n) * p.batch);
  const auto k = static_cast<double>(ceil_div(p.k, tile.steps) * tile.steps), bytes = static_cast<double>(p.bytes);
  const double stored = m * n * static_cast<double>(p.result_bytes);
  const double fetched = (m / tile.column_cluster + n / tile.row_cluster) * k * bytes;
  // Operands are written to shared memory once; a warp group reads all columns for each 64 of its rows, a warp its own
  // rows and columns.
  const double reads = groups ? m + n * m / kGroupRows : m * tile.column_warps + n * tile.row_warps;
  const double shared = (m + n + reads) * k * bytes + 2 * stored;
  // Of tf32 half as many in a cycle.
  const double products = m * n * k * bytes / kHalf / (groups ? sm.group_products : sm.warp_products);
  const double l2 = std::min(sm.l2_bytes, sm.all_l2_bytes / units);
  const double all = tiles * std::max({(fetched + stored) / l2, shared / sm.shared_bytes, products});
  // Blocks of stream-K, and what they pass to the next one of their tile.
  const double sharing = stream_k ? std::min(units, tiles * k / tile.steps / tile.shared_steps) : 1;
  const double waves = stream_k ? tiles / sharing : std::ceil(tiles / units);
  const double passing = stream_k ? (1 + std::max(1.0, sharing / tiles)) * m * n * sizeof(float) / kPassedBytes : 0;
  // Results of a tile leave while the other warp group multiplies; elsewhere the tensor cores wait for that.
  const double leaving = tile.pingpong && waves > 1 ? 0 : waves * stored / sm.l2_bytes;
  return all / tiles * waves + leaving + passing;
}

}  // namespace tw::cost
