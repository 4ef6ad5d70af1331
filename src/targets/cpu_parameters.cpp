#include "targets/cpu_parameters.h"

namespace tw::targets {
namespace {

constexpr int kDefaultCores = 8;

// Share of the contiguous bandwidth that random chunks of 1, 2, 4, 8, 16 and 64 lines reach: L1 measured on Zen 3, the
// others on Cascade Lake.
constexpr std::array<int64_t, 6> kChunkLines = {1, 2, 4, 8, 16, 64};
constexpr std::array<double, 6> kChunkShareL1 = {0.7, 0.75, 0.8, 0.85, 0.95, 1};
constexpr std::array<double, 6> kChunkShareL2 = {0.5, 0.7, 0.85, 0.9, 0.95, 1};
constexpr std::array<double, 6> kChunkShareL3 = {0.6, 0.85, 0.95, 0.95, 0.95, 1};
constexpr std::array<double, 6> kChunkShareDram = {0.25, 0.45, 0.55, 0.6, 0.65, 1};

// 210 ns a region and 77 ns a barrier were measured on two cores of Zen 3; threads are called one after the other.
constexpr double kForkJoinNsPerCore = 100;
constexpr double kBarrierNsPerCore = 40;

MemoryLevel memory_level(const char* name, const LevelRow& row, const std::array<double, 6>& share) {
  MemoryLevel level;
  level.name = name;
  level.capacity_bytes = row.bytes;
  level.ways = row.ways;
  level.latency_ns = row.latency_ns;
  level.read_per_ns = row.read;
  level.write_per_ns = row.write;
  level.copy_per_ns = row.copy;
  for (size_t i = 0; i < share.size(); ++i)
    level.chunks.push_back({kChunkLines[i] * level.line_bytes, share[i] * row.read});
  return level;
}

}  // namespace

void set_parameters(TargetInfo& info, const CpuRow& row, std::string from) {
  info.parameters_from = std::move(from);
  info.peaks.clear();
  for (size_t w = 0; w < row.core.flop_per_ns.size(); ++w) {
    const int bytes = 16 << w;
    if (bytes > info.vector_bytes) break;
    info.peaks.push_back({bytes, row.core.flop_per_ns[w], 0, row.core.clock_ghz});
  }
  info.flop_per_ns = info.peaks.back().flop_per_ns;
  info.levels = {memory_level("L1", row.l1, kChunkShareL1), memory_level("L2", row.l2, kChunkShareL2),
                 memory_level("L3", row.l3, kChunkShareL3), memory_level("DRAM", row.dram, kChunkShareDram)};
  info.levels[2].shared = info.levels[3].shared = true;
  set_compute_units(info, kDefaultCores, row);
}

void set_compute_units(TargetInfo& info, int compute_units, const CpuRow& row) {
  info.compute_units = compute_units;
  info.fork_join_ns = kForkJoinNsPerCore * compute_units;
  info.barrier_ns = kBarrierNsPerCore * compute_units;
  for (VectorPeak& peak : info.peaks) peak.all_flop_per_ns = compute_units * peak.flop_per_ns;
  for (MemoryLevel& level : info.levels) {
    level.all_per_ns = compute_units * level.read_per_ns;
    if (level.name == "L3") level.all_per_ns = std::min(level.all_per_ns, std::max(row.l3.all, level.read_per_ns));
    if (level.name == "DRAM") level.all_per_ns = std::min(level.all_per_ns, std::max(row.dram.all, level.read_per_ns));
  }
}

}  // namespace tw::targets
