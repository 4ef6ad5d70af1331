// x86-64 levels: vector width and registers, with default parameters that are the same on every machine, each also with
// every choice of its extensions; and this host: its level, its caches, and the machine parameters of its CPU if that
// is a known one. driver/machine measures what is given here.
#include <algorithm>

#include "targets/registry.h"
#include "targets/x86_64/host.h"
#include "targets/x86_64/parameters.h"

namespace tw::targets {
namespace {

struct Level {
  const char* name;
  int vector_bytes;
  int registers;
  std::vector<std::string> features;
  std::vector<std::string> extensions;  // beyond the level, sorted: what code generation makes use of
};

const std::vector<Level>& levels() {
  static const std::vector<Level> kLevels = {{"x86-64", 16, 16, {}, {}},
                                             {"x86-64-v2", 16, 16, {"sse4.1"}, {}},
                                             {"x86-64-v3", 32, 16, {"sse4.1", "avx2", "fma"}, {"avxvnni"}},
                                             {"x86-64-v4",
                                              64,
                                              32,
                                              {"sse4.1", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"},
                                              {"avx512bf16", "avx512vnni"}}};
  return kLevels;
}

// The level with those of its extensions that `has` picks.
template <typename Has>
TargetInfo make_level(const Level& level, const Has& has) {
  TargetInfo info;
  info.kind = DeviceKind::kCpu;
  info.name = std::string("cpu:") + level.name;
  info.vector_bytes = level.vector_bytes;
  info.vector_registers = level.registers;
  info.features = level.features;
  for (const std::string& extension : level.extensions) {
    if (!has(extension)) continue;
    info.name += "+" + extension;
    info.features.push_back(extension);
  }
  set_parameters(info, level_row(level.name), std::string("defaults of ") + level.name);
  return info;
}

// The widest level that this machine runs.
const Level& host_level() {
  const Level* best = &levels().front();
  for (const Level& level : levels()) {
    if (std::ranges::all_of(level.features, x86_64_has)) best = &level;
  }
  return *best;
}

// Levels as the system describes them, each with those of `parameters` of the level of the same number.
std::vector<MemoryLevel> host_levels(const HostCpu& cpu, const std::vector<MemoryLevel>& parameters) {
  std::vector<MemoryLevel> result;
  for (const HostCache& cache : cpu.caches) {
    const size_t row = std::clamp<size_t>(static_cast<size_t>(cache.level - 1), 0, parameters.size() - 2);
    MemoryLevel level = parameters[row];
    level.name = "L" + std::to_string(cache.level);
    level.line_bytes = cache.line_bytes;
    if (cache.ways > 0) level.ways = cache.ways;
    // Hyperthreads share all caches of their core; what more CPUs share is shared.
    level.shared = cache.sharers > cpu.caches.front().sharers;
    const int instances = std::max(1, (cpu.compute_units + cache.sharers - 1) / cache.sharers);
    level.capacity_bytes = cache.bytes * (level.shared ? instances : 1);
    result.push_back(std::move(level));
  }
  result.push_back(parameters.back());
  result.back().capacity_bytes = cpu.memory_bytes;
  return result;
}

}  // namespace

bool x86_64_has(const std::string& feature) {
#if defined(__x86_64__)
  if (feature == "sse4.1") return __builtin_cpu_supports("sse4.1");
  if (feature == "avx2") return __builtin_cpu_supports("avx2");
  if (feature == "fma") return __builtin_cpu_supports("fma");
  if (feature == "avx512f") return __builtin_cpu_supports("avx512f");
  if (feature == "avx512bw") return __builtin_cpu_supports("avx512bw");
  if (feature == "avx512dq") return __builtin_cpu_supports("avx512dq");
  if (feature == "avx512vl") return __builtin_cpu_supports("avx512vl");
  if (feature == "avx512vnni") return __builtin_cpu_supports("avx512vnni");
  if (feature == "avx512bf16") return __builtin_cpu_supports("avx512bf16");
  if (feature == "avxvnni") return has_avx_vnni();
#endif
  (void)feature;
  return false;
}

std::vector<TargetInfo> x86_64_levels() {
  std::vector<TargetInfo> infos;
  for (const Level& level : levels()) {
    const auto& extensions = level.extensions;
    for (size_t chosen = 0; chosen < size_t{1} << extensions.size(); ++chosen) {
      infos.push_back(make_level(level, [&](const std::string& extension) {
        const auto at = std::ranges::find(extensions, extension) - extensions.begin();
        return (chosen >> static_cast<size_t>(at) & 1) != 0;
      }));
    }
  }
  return infos;
}

TargetInfo x86_64_host() {
  const Level& level = host_level();
  TargetInfo info = make_level(level, x86_64_has);
  const HostCpu cpu = host_cpu();
  const CpuRow* known = known_cpu(cpu.family, cpu.model);
  if (known != nullptr && known->core.flop_per_ns[info.peaks.size() - 1] > 0)
    set_parameters(info, *known, std::string("defaults of ") + std::string(known->name));
  if (!cpu.caches.empty()) info.levels = host_levels(cpu, info.levels);
  info.levels.back().capacity_bytes = cpu.memory_bytes;
  set_compute_units(info, cpu.compute_units, known != nullptr ? *known : level_row(level.name));
  return info;
}

}  // namespace tw::targets
