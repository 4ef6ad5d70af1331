#include "construct/cpu/winograd_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cost/units.h"
#include "support/join.h"
#include "support/math.h"

namespace tw::construct {
namespace {

constexpr size_t kRegisterTiles = 3;  // for each block
constexpr int64_t kElement = 4;       // bytes

class Blocker {
 public:
  Blocker(const WinogradProblem& problem, const TargetInfo& target)
      : p_(problem), target_(target), units_(std::max(1, target.compute_units)) {}

  std::vector<WinogradBlocks> run(size_t limit) {
    for (const WinogradBlocks& block : tile_blocks()) add_tiles(block);
    std::ranges::stable_sort(found_, {}, &WinogradBlocks::predicted_ns);
    if (found_.size() > limit) found_.resize(limit);
    return std::move(found_);
  }

 private:
  // Parts of an extent: all of it, and every divisor.
  static std::vector<int64_t> parts_of(int64_t extent) {
    std::vector<int64_t> parts = filtered(sequence(extent, 1), [&](int64_t n) { return extent % n == 0; });
    std::ranges::reverse(parts);
    return parts;
  }

  std::vector<WinogradBlocks> tile_blocks() const {
    std::vector<WinogradBlocks> blocks;
    for (const std::vector<int64_t>& rows : row_blocks()) {
      WinogradBlocks block;
      block.rows = rows;
      block.wide = p_.tiles_wide;
      for (const int64_t high : parts_of(p_.tiles_high)) {
        block.high = high;
        blocks.push_back(block);
      }
      block.high = 1;
      for (const int64_t wide : parts_of(p_.tiles_wide)) {
        block.wide = wide;
        if (wide < p_.tiles_wide) blocks.push_back(block);
      }
    }
    return blocks;
  }

  // Images one by one or, where a plane has few tiles, several; depths all together when filter positions share their
  // input.
  std::vector<std::vector<int64_t>> row_blocks() const {
    std::vector<std::vector<int64_t>> all = {{}};
    for (const WinogradRows& row : p_.rows) {
      std::vector<std::vector<int64_t>> next;
      for (const std::vector<int64_t>& so_far : all) {
        for (const int64_t part :
             row.inputs > row.outputs ? std::vector{row.outputs, int64_t{1}} : parts_of(row.outputs)) {
          next.push_back(so_far);
          next.back().push_back(part);
        }
      }
      all = std::move(next);
    }
    return all;
  }

  // Depths of a block that has only some of them would transform their neighbours' input again.
  bool repeats_input(const WinogradBlocks& block) const {
    for (size_t d = 0; d < p_.rows.size(); ++d) {
      if (p_.rows[d].inputs > p_.rows[d].outputs && block.rows[d] < p_.rows[d].outputs) return true;
    }
    return false;
  }

  void add_tiles(WinogradBlocks block) {
    for (const WinogradOrder order : {WinogradOrder::kTiles, WinogradOrder::kPoints}) {
      block.order = order;
      cost::TileProblem tiles;
      tiles.inner_rows = block.high * block.wide;
      if (!block.rows.empty()) tiles.outer_rows = block.rows.back();
      tiles.product = cost::product_cost(std::nullopt, target_);
      tiles.columns = p_.out_channels;
      tiles.lanes = static_cast<int>(p_.lanes);
      tiles.row_stride = (order == WinogradOrder::kTiles ? p_.points() : 1) * 2 * p_.lanes * kElement;
      tiles.steps = p_.channels * p_.kernel_depth;
      for (const cost::RegisterTile& tile : best_tiles(tiles, target_, kRegisterTiles)) {
        block.tile = tile;
        add_channels(block);
      }
    }
  }

  void add_channels(WinogradBlocks block) {
    const int64_t panel = block.tile.vectors * p_.lanes;
    for (const int64_t panels : parts_of(ceil_div(p_.out_channels, panel))) {
      block.channels = panels * panel;
      for (const bool before : {false, true}) {
        block.tiles_before = before;
        if (before || !repeats_input(block)) keep(block);
      }
    }
  }

  void keep(WinogradBlocks block) {
    block.predicted_ns = predict(block);
    const std::vector<int64_t> extents = joined(block.rows, std::vector{block.high, block.wide});
    block.trace = {fmt::format("registers: {} x {} tiles, {} vectors of {}: {:.0f} issue cycles a step",
                               block.tile.outer, block.tile.inner, block.tile.vectors, p_.lanes, block.tile.cycles),
                   fmt::format("block: {} tiles, {} channels, input transformed {}, {} outside",
                               fmt::join(extents, " x "), block.channels, block.tiles_before ? "before" : "inside",
                               block.order == WinogradOrder::kTiles ? "tiles" : "points")};
    found_.push_back(std::move(block));
  }

  // ---- The model.

  int64_t blocks_of(const WinogradBlocks& b) const {
    int64_t blocks = ceil_div(p_.tiles_high, b.high) * ceil_div(p_.tiles_wide, b.wide);
    for (size_t d = 0; d < p_.rows.size(); ++d) blocks *= ceil_div(p_.rows[d].outputs, b.rows[d]);
    return blocks;
  }
  int64_t channel_blocks(const WinogradBlocks& b) const { return ceil_div(p_.out_channels, b.channels); }

  // Tiles of a block, of the output or of the input.
  double tiles_of(const WinogradBlocks& b, bool inputs) const {
    auto tiles = static_cast<double>(b.high * b.wide);
    for (size_t d = 0; d < p_.rows.size(); ++d) {
      const WinogradRows& row = p_.rows[d];
      const bool all = b.rows[d] == row.outputs;
      tiles *= static_cast<double>(!inputs ? b.rows[d]
                                   : all   ? row.inputs
                                           : std::min(row.inputs, b.rows[d] - 1 + p_.kernel_depth));
    }
    return tiles;
  }

  double product_cycles(const WinogradBlocks& b) const {
    double rows = 1;  // of the block that no register tile spans
    for (size_t d = 0; d + 1 < b.rows.size(); ++d) rows *= static_cast<double>(b.rows[d]);
    return b.tile.cycles * rows * static_cast<double>(p_.points() * p_.channels * p_.kernel_depth * blocks_of(b));
  }

  double transform_cycles(const WinogradBlocks& b) const {
    const auto vectors = [&](int64_t channels) {
      return static_cast<double>(p_.points() * ceil_div(channels, p_.lanes) * blocks_of(b));
    };
    return cost::kWinogradInputCycles * tiles_of(b, true) * vectors(p_.channels) +
           cost::kWinogradOutputCycles * tiles_of(b, false) * vectors(p_.out_channels);
  }

  double bandwidth(size_t level, int64_t working) const {
    const MemoryLevel& memory = target_.levels[level];
    const double one = memory.read_per_ns > 0 ? memory.read_per_ns : cost::kNominalBytesPerNs;
    if (!memory.shared || memory.all_per_ns <= 0) return one;
    return std::min(one, memory.all_per_ns / static_cast<double>(working));
  }

  // The first level, from number 1, in which `bytes` stay when `sharers` cores keep as many there.
  size_t home(double bytes, int64_t sharers) const {
    size_t level = 1;
    while (level + 1 < target_.levels.size()) {
      const MemoryLevel& cache = target_.levels[level];
      const double share = cost::kCacheShare / (cache.shared ? static_cast<double>(sharers) : 1);
      if (bytes <= share * static_cast<double>(cache.capacity_bytes)) break;
      ++level;
    }
    return level;
  }

  // Time in which each of `working` cores moves `bytes` to or from `level`, where it is not hidden.
  double visible_ns(double bytes, size_t level, int64_t working) const {
    return level >= target_.levels.size() ? 0 : cost::kExposedTraffic * bytes / bandwidth(level, working);
  }

  // The transformed input is stored scattered for one of its two users. With points outside, the transform writes each
  // line of a tile elsewhere; with tiles outside, the products read each line of a point elsewhere, again for every
  // panel of weights unless both stay in the first cache. `level`: where the tiles stay in between.
  double scatter_ns(const WinogradBlocks& b, size_t level) const {
    if (level >= target_.levels.size()) return 0;
    const double matrix = kElement * tiles_of(b, true) * static_cast<double>(p_.channels);  // of one point
    const double lines =
        static_cast<double>(p_.points() * blocks_of(b)) * matrix / static_cast<double>(target_.levels[0].line_bytes);
    const double latency = target_.levels[level].latency_ns;
    if (b.order == WinogradOrder::kPoints) return cost::kExposedStore * lines * latency;
    const bool stays = in_first_cache(matrix + panel_bytes(b));
    const int64_t again = stays ? 0 : p_.kernel_depth * ceil_div(p_.out_channels, b.tile.vectors * p_.lanes) - 1;
    return cost::kExposedLoad * lines * (latency + static_cast<double>(again) * target_.levels[1].latency_ns);
  }

  double panel_bytes(const WinogradBlocks& b) const {
    return static_cast<double>(kElement * p_.channels * p_.kernel_depth * b.tile.vectors * p_.lanes);
  }
  bool in_first_cache(double bytes) const {
    return bytes <= cost::kCacheShare * static_cast<double>(target_.levels[0].capacity_bytes);
  }

  // Cores read the same weights, all of them for each block of tiles. Of all blocks, as if one core worked through
  // them, like traffic_ns.
  double weights_ns(const WinogradBlocks& b, int64_t working) const {
    const size_t level = home(weight_bytes(), 1);
    return level >= target_.levels.size()
               ? 0
               : static_cast<double>(blocks_of(b)) * weight_bytes() / bandwidth(level, working);
  }
  double weight_bytes() const {
    return static_cast<double>(kElement * p_.points() * p_.kernel_depth * p_.channels * p_.out_channels);
  }

  double traffic_ns(const WinogradBlocks& b, int64_t working) const {
    if (target_.levels.size() < 2) return 0;
    const double point = kElement * static_cast<double>(p_.points());
    const double input = point * tiles_of(b, true) * static_cast<double>(p_.channels);
    const double products = point * tiles_of(b, false) * static_cast<double>(b.channels);
    const auto blocks = static_cast<double>(blocks_of(b));
    const auto channels = static_cast<double>(channel_blocks(b));
    const size_t near = home(input + products, working);
    // A panel of weights again for each register tile.
    const auto register_tiles = std::ceil(tiles_of(b, false) / static_cast<double>(b.tile.outer * b.tile.inner));
    double ns = 0;
    if (!in_first_cache(panel_bytes(b))) ns += visible_ns(blocks * weight_bytes() * (register_tiles - 1), 1, working);
    // What is transformed before is all of the input, and its first reader finds it where all of it stays.
    const size_t first_reader = b.tiles_before ? std::max(near, home(blocks * input, 1)) : near;
    ns += visible_ns(blocks * 2 * input, first_reader, working) + scatter_ns(b, first_reader);
    ns += visible_ns(blocks * (channels - 1) * input, near, working);
    return ns + visible_ns(blocks * channels * 2 * products, near, working);
  }

  double predict(const WinogradBlocks& b) const {
    const int64_t tasks = blocks_of(b) * (b.tiles_before ? channel_blocks(b) : 1);
    const int64_t working = std::min(units_, tasks);
    const double cycles = product_cycles(b) + transform_cycles(b);
    const double near = cycles * cost::issue_cycle_ns(target_, p_.lanes) + traffic_ns(b, working);
    const double weights = weights_ns(b, working);
    const double ns = cost::overlapped(near, weights, cost::kExposedTraffic);
    const double share = static_cast<double>(ceil_div(tasks, units_)) / static_cast<double>(tasks);
    return ns * share + (b.tiles_before ? 2 : 1) * target_.barrier_ns;
  }

  const WinogradProblem& p_;
  const TargetInfo& target_;
  int64_t units_;
  std::vector<WinogradBlocks> found_;
};

}  // namespace

std::vector<WinogradBlocks> block_winograd(const WinogradProblem& problem, const TargetInfo& target, size_t limit) {
  return Blocker(problem, target).run(limit);
}

}  // namespace tw::construct
