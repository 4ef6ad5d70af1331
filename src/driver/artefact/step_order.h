// Which steps of an entry wait for which: the order of a graph of steps instead of that of a list.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tw::driver {

/// Bytes [begin, end) of a memory, and whether a step writes some of them.
struct MemoryAccess {
  int64_t memory = 0;  // accesses of different memories have no byte in common
  int64_t begin = 0, end = 0;
  bool writes = false;
};

/// For each step, by its accesses, the earlier ones that have to end before it starts, in order: those that have bytes
/// in common with it which one of both writes. Those for which another one of these waits, directly or not, are left
/// out. Deterministic.
std::vector<std::vector<int64_t>> waits_of(std::span<const std::vector<MemoryAccess>> steps);

}  // namespace tw::driver
