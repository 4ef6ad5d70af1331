// Units that times are counted in: issue cycles of a CPU's core, and what a cycle of an SM moves.
#pragma once
#include <algorithm>

#include "core/target_info.h"
#include "cost/calibrated.h"

namespace tw::cost {

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

/// Bytes that threads of an SM read from L2 in a cycle by accesses of their own, while all SMs do.
inline double l2_by_threads(const TargetInfo& target) { return kThreadsL2 * target.sm.l2_share; }

/// Time of two activities beside each other: the longer one, and the share of the shorter one that it does not hide.
inline double overlapped(double a, double b, double share) { return std::max(a, b) + share * std::min(a, b); }

}  // namespace tw::cost
