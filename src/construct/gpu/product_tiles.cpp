// Which tiles of products there are: rTiles of sums, scaled up from one instruction over registers, thread block and
// cluster. Each is offered with its k-blocks under way, and ranked by its predicted time.
#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "construct/gpu/thread_block_tile.h"
#include "construct/rtile.h"
#include "cost/units.h"
#include "support/math.h"

namespace tw::construct {
namespace {

using enum FactorKind;

constexpr int64_t kVectorColumns = 4;  // f32 of one access
constexpr int64_t kOthers = 64;        // registers of a thread beside its sums
constexpr size_t kMaxTiles = 12;       // candidates of a problem
constexpr size_t kEnough = 200;        // tiles of one multiplier: with fewer, more padding is allowed
constexpr size_t kMaxScaled = 2000;

enum AxisOf : size_t { kBatchAxis, kRowAxis, kColumnAxis, kStepAxis };

// How a problem's tiles begin: on one product or several of the batch, on any columns or on all of them.
struct Beginning {
  bool packed = false;
  int64_t columns = 0;  // 0: any
};

// Whether each loop of rows has pixels in all turns.
bool supports_filter_positions(const ThreadBlockTile& tile, const GemmProblem& problem) {
  int64_t stride = 1;
  for (auto f = tile.rows.rbegin(); f != tile.rows.rend(); stride *= f->extent, ++f) {
    const bool whole = problem.pixels % (stride * f->extent) == 0;
    if (f->extent > 1 && whole && problem.pixels - problem.halo <= stride * (f->extent - 1)) return false;
  }
  return true;
}

// The operands as their tiles read them: [batch, row, step] and [batch, column, step].
cost::Nest nest_of(const GemmProblem& p) {
  cost::Nest nest;
  nest.axes = {{"batch", p.batch}, {"row", p.m}, {"column", p.n}, {"step", p.k}};
  for (const size_t line : {kRowAxis, kColumnAxis}) {
    cost::Access access{nest.axes[line].name, p.bytes, {}};
    for (const size_t axis : {size_t{kBatchAxis}, line, size_t{kStepAxis}})
      access.dims.push_back({nest.axes[axis].extent, {{axis, 1}}});
    nest.accesses.push_back(std::move(access));
  }
  return nest;
}

class ProductTiles {
 public:
  ProductTiles(const GemmProblem& problem, const TargetInfo& target, Multiplier multiplier, Beginning beginning)
      : p_(problem),
        target_(target),
        nest_(nest_of(problem)),
        space_{nest_, {}, multiplier, {}},
        beginning_(beginning) {
    constexpr int64_t kSectorColumns = 16;  // of 16 bits, in a sector of memory
    space_.axes = {{beginning.packed ? AxisRole::kBatch : AxisRole::kFixed},
                   {AxisRole::kRows},
                   {beginning.columns == 0 ? AxisRole::kColumns : AxisRole::kFixed,
                    by_matrix() ? kSectorColumns : line_bytes() / 4},
                   {AxisRole::kSteps, line_bytes() / (by_matrix() ? p_.bytes : 4)}};
    if (by_groups() && p_.columns_beside)
      space_.axes[kColumnAxis].transaction = kBlockLines / 2, space_.axes[kColumnAxis].box = kBlockLines;
    if (by_groups() && p_.rows_beside && p_.tma) space_.axes[kRowAxis].box = kBlockLines;
    add_levels();
  }

  std::vector<ThreadBlockTile> run() {
    const RTiles start = {{beginning_.packed ? 0 : 1, 0, beginning_.columns, tile_k()}};
    std::vector<ThreadBlockTile> all;
    const auto is_legal = [this](const RTiles& tiles) { return this->is_legal(tile_at(tiles)); };
    for (const RTiles& tiles : scale_up_growing(space_, start, kMaxScaled, kEnough, is_legal))
      all.push_back(tile_at(tiles));
    return all;
  }

 private:
  bool by_groups() const { return space_.multiplier == Multiplier::kWarpGroup; }
  bool by_matrix() const { return space_.multiplier != Multiplier::kThread; }

  int64_t line_bytes() const { return target_.levels.front().line_bytes; }
  // Threads of one multiplier.
  int64_t lanes() const { return by_groups() ? kGroupWarps * kWarpThreads : by_matrix() ? kWarpThreads : 1; }

  static int64_t sums(const RTile& tile) { return tile[kBatchAxis] * tile[kRowAxis] * tile[kColumnAxis]; }

  // How many tiles of one level the next one has.
  static int64_t count(const RTiles& tiles, size_t level) { return sums(tiles[level]) / sums(tiles[level - 1]); }

  // K of a k-block, between two loads. Warp groups read lines of 128 bytes.
  int64_t tile_k() const {
    if (by_groups()) return space_.axes[kStepAxis].transaction;
    return std::max(kMatrixSteps,
                    largest_aligned_size(space_, {{1, 0, 0, 0}}, kStepAxis, [](int64_t) { return true; }));
  }

  void add_levels() {
    space_.line_bytes = line_bytes();
    space_.ns_per_point =
        1 / cost::products_a_cycle(space_.multiplier, p_.bytes, target_.sm);  // in cycles, as rates are
    const double l2 = p_.tma ? target_.sm.l2_share : cost::l2_by_threads(target_);
    space_.levels = {
        {"registers", [this](const RTiles& t) { return fits_registers(t); }, target_.sm.shared_bytes, true},
        {"shared memory", [this](const RTiles& t) { return fits_block(t); }, l2, true}};
    // Neighbours share what TMA brings.
    const bool cluster = by_groups() && p_.tma && p_.filter_positions == 1 && p_.kept_bytes == 0 && !beginning_.columns;
    if (cluster) space_.levels.push_back({"cluster", [this](const RTiles& t) { return fits_cluster(t); }, 1, true});
  }

  // Sums have half of a thread's registers; the rest is for operands on their way and addresses. Threads that multiply
  // hide the latency of each product by others, which takes twice as many of them.
  bool fits_registers(const RTiles& tiles) const {
    const int64_t registers = (target_.vector_registers + 1) / (by_matrix() ? 1 : 2);
    // Of a warp's operands each thread has a word for four lines of 16 steps.
    const int64_t lines = space_.multiplier == Multiplier::kWarp ? tiles[0][kRowAxis] + tiles[0][kColumnAxis] : 0;
    const int64_t own = sums(tiles[0]) / lanes();
    return own <= registers / 2 && own + tiles[0][kBatchAxis] * lines / 4 + kOthers <= registers;
  }

  bool fits_block(const RTiles& tiles) const {
    constexpr int64_t kMaxThreads = 1024;  // of a block
    const int64_t threads = lanes() * count(tiles, 1);
    if (threads > kMaxThreads || threads * (sums(tiles[0]) / lanes() + kOthers) > target_.sm.registers) return false;
    const RTile& t = tiles[1];
    const int64_t lines = t[kBatchAxis] * (t[kRowAxis] + t[kColumnAxis] * p_.filter_positions);
    return lines * t[kStepAxis] * p_.bytes <= target_.levels.front().capacity_bytes - target_.sm.reserved_bytes;
  }

  // Along one axis: rows or columns.
  bool fits_cluster(const RTiles& tiles) const {
    return (tiles[2][kRowAxis] == tiles[1][kRowAxis] || tiles[2][kColumnAxis] == tiles[1][kColumnAxis]) &&
           (count(tiles, 2) == 1 || tile_at(tiles).tma);
  }

  ThreadBlockTile tile_at(const RTiles& tiles) const {
    const auto of = [&](size_t level, size_t axis) { return tiles[level][axis] / tiles[level - 1][axis]; };
    const int64_t rows = tiles[0][kRowAxis], columns = tiles[0][kColumnAxis];
    const int64_t along_rows = of(1, kRowAxis), along_columns = of(1, kColumnAxis);
    ThreadBlockTile tile;
    if (by_groups()) {
      tile = group_tile({along_rows, rows / kGroupRows, columns});
    } else if (by_matrix()) {
      tile = tile_of(WarpTile{along_rows, along_columns, rows / kInstructionRows, columns / kInstructionColumns},
                     p_.neighbours);
    } else {
      tile.rows = {{rows, kUnrolled}, {along_rows, kThreads}};
      tile.columns = {{columns / kVectorColumns, kUnrolled}, {along_columns, kThreads}, {kVectorColumns, kVector}};
    }
    if (beginning_.packed) tile.batch = {{of(1, kBatchAxis), kThreads}, {tiles[0][kBatchAxis], kUnrolled}};
    if (tiles.size() > 2) tile.row_cluster = of(2, kRowAxis), tile.column_cluster = of(2, kColumnAxis);
    tile.tile_k = tiles[0][kStepAxis];
    tile.filter_positions = p_.filter_positions;
    tile.halo = p_.halo;
    return tile;
  }

  // Up to p_.neighbours columns of a thread beside each other. Columns that end within a tile are interleaved in more
  // blocks than one: TMA boxes have them in order.
  ThreadBlockTile group_tile(const GroupTile& g) const {
    const bool in_blocks = p_.columns_beside && g.columns % kBlockLines == 0;
    const int64_t max = p_.tma && g.columns > p_.n ? std::max<int64_t>(2, p_.n / 8) : p_.neighbours;
    ThreadBlockTile tile = in_blocks ? tile_of_blocks(g) : tile_of(g, std::min(p_.neighbours, max));
    tile.tma = p_.tma && (in_blocks || !p_.columns_beside);
    return tile;
  }

  bool is_legal(const ThreadBlockTile& tile) const {
    const int64_t rows = ThreadBlockTile::extent(tile.rows);
    constexpr int64_t kMinWarps = 2, kMinRows = 8;  // one multiplies while another one loads; rows share columns
    if (rows < kMinRows || (tile.tma && rows + tile.halo > p_.max_lines)) return false;
    const bool is_all = rows >= p_.m && ThreadBlockTile::extent(tile.columns) >= p_.n;
    if (tile.threads() % ((is_all ? 1 : kMinWarps) * kWarpThreads) != 0) return false;
    if (beginning_.packed && ThreadBlockTile::extent(tile.batch) == 1) return false;
    if (p_.kept_bytes > 0 && (rows < p_.m || rows >= 2 * p_.m)) return false;
    return p_.filter_positions == 1 || (tile.tma && supports_filter_positions(tile, p_));
  }

  const GemmProblem& p_;
  const TargetInfo& target_;
  cost::Nest nest_;
  TileSpace space_;
  Beginning beginning_;
};

std::vector<ThreadBlockTile> constructed(const GemmProblem& problem, const TargetInfo& target, Beginning beginning) {
  std::vector<ThreadBlockTile> all;
  const auto add = [&](Multiplier multiplier, Beginning from) {
    std::ranges::move(ProductTiles(problem, target, multiplier, from).run(), std::back_inserter(all));
  };
  if (!problem.by_matrix) add(Multiplier::kThread, beginning);
  if (problem.by_matrix && has_feature(target, "wgmma")) add(Multiplier::kWarpGroup, beginning);
  if (problem.by_matrix && problem.filter_positions == 1) add(Multiplier::kWarp, beginning);
  if (problem.packs && problem.kept_bytes == 0)
    add(Multiplier::kWarp, {.packed = true, .columns = round_up(problem.n, kInstructionColumns)});
  return all;
}

// Whether two tiles differ in nothing but the shares of their threads.
bool differ_by_shares(const ThreadBlockTile& a, const ThreadBlockTile& b) {
  const auto key = [](const ThreadBlockTile& t) {
    const int64_t batch = ThreadBlockTile::extent(t.batch), rows = ThreadBlockTile::extent(t.rows);
    return std::tuple{batch,          rows,          t.num_sums(),     t.threads(),         t.multiplier,
                      t.stages,       t.row_cluster, t.column_cluster, t.persistent_blocks, t.together,
                      t.columns_stay, t.kept_bytes};
  };
  return key(a) == key(b);
}

// The best predicted ones that are not alike, not more than half of them by one kind of instructions and copies while
// there are others that take less than half as long again: where the model errs, it errs for all of a kind.
std::vector<ThreadBlockTile> best_of(const std::vector<ThreadBlockTile>& tiles, const GemmProblem& problem,
                                     const TargetInfo& target) {
  std::vector<std::pair<double, const ThreadBlockTile*>> ranked;
  for (const ThreadBlockTile& tile : tiles) ranked.emplace_back(cost::predicted_cycles(tile, problem, target), &tile);
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  std::vector<ThreadBlockTile> best, others;
  std::map<std::pair<Multiplier, bool>, size_t> of_kind;
  for (const auto& [cycles, tile] : ranked) {
    const auto alike = [&](const ThreadBlockTile& b) { return differ_by_shares(b, *tile); };
    const bool is_near = 2 * cycles < 3 * ranked.front().first;
    if (best.size() == kMaxTiles || (others.size() == kMaxTiles && !is_near)) break;
    if (std::ranges::any_of(best, alike) || std::ranges::any_of(others, alike)) continue;
    const bool is_kept = is_near && ++of_kind[{tile->multiplier, tile->tma}] <= kMaxTiles / 2;
    if (is_kept || others.size() < kMaxTiles) (is_kept ? best : others).push_back(*tile);
  }
  others.resize(std::min(others.size(), kMaxTiles - best.size()));
  std::ranges::move(others, std::back_inserter(best));
  std::ranges::stable_sort(best, {}, [&](const auto& t) { return cost::predicted_cycles(t, problem, target); });
  return best;
}

}  // namespace

std::vector<ThreadBlockTile> thread_block_tiles(const GemmProblem& problem, const TargetInfo& target,
                                                const Sampling& sampling) {
  std::vector<ThreadBlockTile> tiles;
  for (ThreadBlockTile& tile : constructed(problem, target, {})) {
    const bool alone = tile.row_cluster * tile.column_cluster * tile.filter_positions == 1 && tile.batch.empty();
    std::vector<int64_t> ways = {problem.kept_bytes};
    if (alone && problem.kept_bytes == 0 && problem.odd_bytes > 0) ways.push_back(problem.odd_bytes);
    for (const int64_t kept : ways) {
      tile.kept_bytes = kept;
      std::ranges::move(staged(tile, problem, target), std::back_inserter(tiles));
    }
  }
  if (sampling.count == 0) return best_of(tiles, problem, target);
  std::ranges::shuffle(tiles, std::mt19937_64(sampling.seed));
  tiles.resize(std::min(tiles.size(), sampling.count));
  return tiles;
}

std::vector<ThreadBlockTile> row_tiles(GemmProblem problem, const TargetInfo& target) {
  problem.neighbours = 2, problem.packs = false;
  std::vector<ThreadBlockTile> tiles;
  for (ThreadBlockTile& tile : constructed(problem, target, {.columns = round_up(problem.n, kMatrixSteps)}))
    std::ranges::move(staged(std::move(tile), problem, target), std::back_inserter(tiles));
  return best_of(tiles, problem, target);
}

}  // namespace tw::construct
