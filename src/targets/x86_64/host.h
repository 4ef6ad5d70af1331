// What the system says of the CPU this process runs on. Says nothing of speed: that is measured (driver/machine).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::targets {

/// A data or unified cache as the system describes it.
struct HostCache {
  int level = 1;
  int64_t bytes = 0;  // of one instance
  int ways = 0;       // 0: unknown
  int line_bytes = 64;
  int sharers = 1;  // logical CPUs that share an instance
  bool operator==(const HostCache&) const = default;
};

struct HostCpu {
  std::string name;  // "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz"; "unknown" when the system does not say
  int family = 0;    // CPUID's display family, model and stepping; 0 when there is no CPUID
  int model = 0;
  int stepping = 0;
  int compute_units = 1;          // CPUs in this process's affinity mask, no more than its quota pays for
  int64_t memory_bytes = 0;       // physical memory, or less when the process's control group may use less
  std::vector<HostCache> caches;  // nearest first; empty when the system says nothing
};

/// Caches from sysfs, or from CPUID where there is no sysfs; nothing is taken from sysconf, which multiplies the L3 by
/// the package's cores on some CPUs.
HostCpu host_cpu();

/// The same from another sysfs folder "../cpu0/cache", for tests; empty when it has no caches.
std::vector<HostCache> sysfs_caches(const std::string& folder);

/// Whether this CPU has AVX-VNNI, which not all compilers' own tests know. Says nothing of the system's support of
/// AVX: AVX2 tells that.
bool has_avx_vnni();

}  // namespace tw::targets
