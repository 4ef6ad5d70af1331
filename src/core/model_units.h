// Units that closed-form models of time count in, for graph passes and constructors alike: issue cycles and lines.
#pragma once
#include <algorithm>

#include "core/target_info.h"

namespace tw {

/// Of targets whose machine parameters are not known: those of a small server core.
inline constexpr double kNominalFlopPerNs = 50;
inline constexpr double kNominalBytesPerNs = 20;

/// Issue cycles that one vector of one point of a Winograd tile takes: of an input tile two products, a load, two
/// stores and what the stores wait for; of an output tile likewise.
inline constexpr double kWinogradInputCycles = 7;
inline constexpr double kWinogradOutputCycles = 9;

/// Share of the time of contiguous traffic from deeper levels that hardware prefetching leaves visible.
inline constexpr double kExposedTraffic = 0.3;

/// Threads of a GPU that issue together, and cycles of its units in a ns: of NVIDIA's since Ampere, about.
inline constexpr int64_t kWarpThreads = 32;
inline constexpr double kCyclesPerNs = 1.7;
/// Of one of these units (NVIDIA H100; of an A100 in like proportion), in a cycle: products of 16-bit floats by matrix
/// instructions of warps, and bytes from and to memory, its share. Cycles of one more kernel: 2 us.
inline constexpr double kMatrixProducts = 1024;
inline constexpr double kMemoryBytes = 14;
inline constexpr double kKernelCycles = 3400;

/// f32 operations in a ns of one unit at peak; an FMA is 2.
inline double peak_flop_per_ns(const TargetInfo& target) {
  return target.flop_per_ns > 0 ? target.flop_per_ns : kNominalFlopPerNs;
}

/// Time in ns of one issue cycle of vectors of `lanes` f32 on one unit: that of one FMA at peak.
inline double issue_cycle_ns(const TargetInfo& target, int64_t lanes) {
  return 2.0 * static_cast<double>(lanes) / peak_flop_per_ns(target);
}

/// Bytes that one unit reads in a ns from the nearest level of which `bytes` fill no more than `share`; at least 1.
inline double read_rate(const TargetInfo& target, double bytes, double share) {
  double rate = 1;
  for (const MemoryLevel& level : target.levels) {
    rate = std::max(1.0, level.read_per_ns);
    if (bytes <= share * static_cast<double>(level.capacity_bytes)) break;
  }
  return rate;
}

/// Bytes of a line of the nearest cache.
inline int64_t line_bytes(const TargetInfo& target) {
  return target.levels.empty() ? MemoryLevel().line_bytes : target.levels.front().line_bytes;
}
inline int64_t line_elements(const TargetInfo& target, DataType type) { return line_bytes(target) / type.bytes(); }

}  // namespace tw
