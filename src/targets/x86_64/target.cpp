// x86-64 levels: vector width, registers and caches. Cache sizes are those of this machine where the system tells them
// (sysconf), otherwise the smallest of current server cores; the hardware abstraction's measurements replace them.
#include <unistd.h>

#include "targets/registry.h"

namespace tw::targets {
namespace {

constexpr int64_t kFallbackL1 = 32 * 1024;
constexpr int64_t kFallbackL2 = 512 * 1024;
constexpr int64_t kFallbackL3 = 16 * 1024 * 1024;

MemoryLevel level(const char* name, int size_query, int ways_query, int64_t fallback) {
  const long size = sysconf(size_query);
  const long ways = sysconf(ways_query);
  return {name, size > 0 ? size : fallback, 64, ways > 0 ? static_cast<int>(ways) : 8};
}

std::vector<MemoryLevel> cache_levels() {
  return {level("L1", _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_ASSOC, kFallbackL1),
          level("L2", _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_ASSOC, kFallbackL2),
          level("L3", _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL3_CACHE_ASSOC, kFallbackL3)};
}

TargetInfo make_level(const std::string& name, int vector_bytes, int registers, std::vector<std::string> features) {
  TargetInfo info;
  info.kind = DeviceKind::kCpu;
  info.name = "cpu:" + name;
  info.vector_bytes = vector_bytes;
  info.vector_registers = registers;
  info.units = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  info.levels = cache_levels();
  info.features = std::move(features);
  return info;
}

bool has_feature(const std::string& feature) {
#if defined(__x86_64__)
  if (feature == "avx2") return __builtin_cpu_supports("avx2");
  if (feature == "fma") return __builtin_cpu_supports("fma");
  if (feature == "avx512f") return __builtin_cpu_supports("avx512f");
  if (feature == "avx512bw") return __builtin_cpu_supports("avx512bw");
  if (feature == "avx512dq") return __builtin_cpu_supports("avx512dq");
  if (feature == "avx512vl") return __builtin_cpu_supports("avx512vl");
#endif
  (void)feature;
  return false;
}

}  // namespace

std::vector<TargetInfo> x86_64_levels() {
  return {make_level("x86-64-v3", 32, 16, {"avx2", "fma"}),
          make_level("x86-64-v4", 64, 32, {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"})};
}

const TargetInfo& x86_64_host(const std::vector<TargetInfo>& levels) {
  const TargetInfo* best = &levels.front();
  for (const TargetInfo& info : levels) {
    bool runs = true;
    for (const std::string& feature : info.features) runs = runs && has_feature(feature);
    if (runs) best = &info;
  }
  return *best;
}

}  // namespace tw::targets
