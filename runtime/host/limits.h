// What the machine and the control groups (v1 and v2) around this process let it use. Nothing is kept: limits and use
// change. Where a file of the system is missing or says nothing, there is no limit.
#pragma once
#include <cstdint>
#include <string>

namespace tw::host {

inline constexpr int64_t kUnlimited = INT64_MAX;

struct MemoryLimit {
  int64_t bytes = kUnlimited;      // that processes may have together
  int64_t available = kUnlimited;  // bytes of these that can still be had; file caches count as free
  std::string owner;               // "the machine", "control group '/a/b'"
};

/// RAM: all of it, and what is free, with swap.
MemoryLimit machine_memory();
/// The control group around this process that leaves least; unlimited where none has a limit. `root` is put before all
/// paths of the system, for tests.
MemoryLimit group_memory(const std::string& root = "");
/// Of both the one that leaves less.
MemoryLimit memory_limit();

/// CPU time for each second that the tightest control group grants; infinity without a quota.
double cpu_quota(const std::string& root = "");
/// CPUs in the calling thread's affinity mask, at least 1.
int affinity_cpus();
/// Threads that make sense: the affinity mask's CPUs, no more than the quota pays for. At least 1.
int usable_cpus();

}  // namespace tw::host
