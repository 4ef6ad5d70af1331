#include "cost/gpu_chains.h"

#include "cost/units.h"
#include "support/math.h"

namespace tw::cost {
namespace {

// Tiles over SMs that hold `at_once` of them: one wave after the other, in each so many tiles on an SM together.
struct Waves {
  double count, together;
  Waves(int64_t tiles, int64_t at_once, const TargetInfo& target) {
    const int64_t sms = std::max(1, target.compute_units);
    count = static_cast<double>(ceil_div(tiles, sms * at_once));
    together = static_cast<double>(std::min(at_once, ceil_div(tiles, sms)));
  }
  // That one tile's work takes as many times longer: a tile alone has too few warps to hide its waits.
  double crowd(int64_t warps) const { return std::max(together, kWarpsAlone / static_cast<double>(warps)); }
};

int64_t held(int64_t shared_bytes, const TargetInfo& target) {
  return target.levels.front().capacity_bytes / shared_bytes;
}

}  // namespace

double whole_rows_ns(const WholeRowsTile& tile, const WholeRowsWork& work, const TargetInfo& target) {
  const int64_t tiles = work.batch * ceil_div(work.m, tile.rows * tile.blocks);
  const Waves waves(tiles, std::max<int64_t>(1, held(work.shared_bytes, target)), target);
  const auto elements = static_cast<double>(tile.rows * work.length);
  const double products = static_cast<double>(work.depth) / (kWholeRowProducts * target.sm.warp_products);
  const double cycles = elements * (kWholeRowElementCycles + products);
  const double fetched = static_cast<double>(work.operand_bytes) / l2_by_threads(target);
  const double of_blocks = static_cast<double>(tile.blocks) * (kRowBarrierCycles + waves.crowd(tile.warps) * cycles);
  return waves.count * (kChainTileCycles + fetched + of_blocks) / target.sm.cycles_per_ns;
}

double streamed_ns(const StreamedTile& tile, const StreamedWork& work, const TargetInfo& target) {
  const SmRates& sm = target.sm;
  const int64_t tiles = work.batch * ceil_div(work.m, tile.tile_rows());
  const int64_t by_registers =
      sm.registers / (work.registers * round_up(tile.block_threads(), kGroupWarps * kWarpThreads));
  const Waves waves(tiles, std::max<int64_t>(1, std::min(held(work.shared_bytes, target), by_registers)), target);
  const auto elements = static_cast<double>(tile.tile_rows() * tile.block);
  const double product_cycles = tile.by_groups()
                                    ? 1 / sm.group_products
                                    : 1 / (kStreamedProducts * sm.warp_products) +
                                          1 / (kStreamedOperands * sm.shared_bytes) / static_cast<double>(tile.rows);
  const double cycles = elements * (kStreamedElementCycles + static_cast<double>(work.depth) * product_cycles);
  const auto blocks = static_cast<double>(ceil_div(work.length, tile.block));
  return waves.count * (kChainTileCycles + blocks * (kStreamedBlockCycles + waves.crowd(tile.warps) * cycles)) /
         sm.cycles_per_ns;
}

double split_ns(const SplitWork& work, const TargetInfo& target) {
  const Waves waves(work.batch * work.parts, std::max<int64_t>(1, held(work.shared_bytes, target)), target);
  const double fetched = static_cast<double>(work.operand_bytes) / (kSplitL2 * target.sm.l2_share);
  const double combining = kCombiningCycles + kTupleCycles * static_cast<double>(work.parts);
  return (waves.count * (kChainTileCycles + kRowBarrierCycles + waves.together * fetched) + combining) /
         target.sm.cycles_per_ns;
}

double kernel_ns(double cycles, double bytes, double unoverlapped, const TargetInfo& target) {
  const double units = std::max(1, target.compute_units);
  const double multiplied = cycles / units, moved = bytes / (target.sm.dram_share * units);
  return (overlapped(multiplied, moved, unoverlapped) + kBehindShare * target.sm.kernel_cycles) /
         target.sm.cycles_per_ns;
}

}  // namespace tw::cost
