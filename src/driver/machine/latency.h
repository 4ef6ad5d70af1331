// Latency of dependent loads by footprint, and what the curve says of cache sizes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tw::driver::machine {

struct LatencyPoint {
  int64_t bytes = 0;  // footprint
  double ns = 0;      // of one load
};

/// Writes a chase through `lines` cache lines from `next` on: starting at 0, at = next[at] visits the first word of
/// every line once, in an order without a pattern that prefetchers follow, and returns to 0. `lines` is 2^k or 3 * 2^k,
/// at least 16. Source: full period of linear congruential generators (Hull & Dobell 1962): i -> a i + c mod m with a -
/// 1 divisible by 12 and c coprime to m.
void write_chase(int64_t* next, int64_t lines);

/// Footprints from 8 KiB to `limit`: 2^k and 3 * 2^k bytes.
std::vector<int64_t> curve_footprints(int64_t limit);
/// The largest 2^k or 3 * 2^k that is not above `bytes`, at least 16 KiB.
int64_t round_footprint(double bytes);

/// Capacities of the caches, nearest first, by the steps of the curve: a step ends a plateau where the latency has
/// risen by a third and stays up. Empty when the curve has no step.
std::vector<int64_t> detect_capacities(std::span<const LatencyPoint> curve);

/// What to believe: `claimed` (by the system) where the curve agrees within a factor of two or shows another number of
/// levels, else `detected`. A guest that shares its L3 with others sees a smaller one than the system claims.
std::vector<int64_t> reconcile_capacities(const std::vector<int64_t>& claimed, const std::vector<int64_t>& detected);

}  // namespace tw::driver::machine
