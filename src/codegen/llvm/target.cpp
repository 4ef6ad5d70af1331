#include "codegen/llvm/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <array>

namespace tw::codegen::cpu {
namespace {

using Features = std::vector<std::string>;

Features merged(Features a, const Features& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::sort(a);
  return a;
}

constexpr const char* kArmTriple = "aarch64-unknown-linux-gnu";

std::array<CpuLevel, 5> published_levels() {
  const Features v1 = merged({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"}, {});
  const Features v2 = merged(v1, {"cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"});
  const Features v3 = merged(v2, {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"});
  const Features v4 = merged(v3, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  return {{{"x86-64", "x86-64", "", 16, v1},
           {"x86-64-v2", "x86-64-v2", "", 16, v2},
           {"x86-64-v3", "x86-64-v3", "", 32, v3},
           {"x86-64-v4", "x86-64-v4", "", 64, v4},
           {"aarch64", "generic", "", 16, {"fp-armv8", "neon"}, kArmTriple}}};
}

// Beyond a level: what emitters make use of.
constexpr std::array<std::string_view, 3> kExtensions = {"avx512bf16", "avx512vnni", "avxvnni"};

bool has_extension(const CpuLevel& level, std::string_view name) {
  return level.triple != kArmTriple && std::ranges::find(kExtensions, name) != kExtensions.end();
}

CpuLevel detect_host() {
  CpuLevel level;
  level.name = "host";
  level.cpu = ::llvm::sys::getHostCPUName().str();
#if defined(__aarch64__)
  level.triple = kArmTriple;
#endif
  Features off;
  for (const auto& feature : ::llvm::sys::getHostCPUFeatures()) {
    (feature.second ? level.required : off).push_back(feature.first().str());
  }
  std::ranges::sort(level.required);
  std::ranges::sort(off);
  // Those that are off are said too: a hypervisor may hide features that the CPU's name implies.
  for (const auto& name : level.required) level.features += (level.features.empty() ? "+" : ",+") + name;
  for (const auto& name : off) level.features += (level.features.empty() ? "-" : ",-") + name;
  const bool wide = level.has("avx512f") && level.has("avx512vl") && level.has("avx512bw") && level.has("avx512dq");
  level.vector_bytes = wide ? 64 : level.has("avx2") ? 32 : 16;
  return level;
}

}  // namespace

bool CpuLevel::has(std::string_view feature) const {
  return std::binary_search(required.begin(), required.end(), feature);
}

std::span<const CpuLevel> cpu_levels() {
  static const std::array<CpuLevel, 5> levels = published_levels();
  return levels;
}

const CpuLevel& host_level() {
  static const CpuLevel level = detect_host();
  return level;
}

std::optional<CpuLevel> find_level(std::string_view name) {
  if (name == "host") return host_level();
  const size_t plus = std::min(name.find('+'), name.size());
  const auto base = std::ranges::find(cpu_levels(), name.substr(0, plus), &CpuLevel::name);
  if (base == cpu_levels().end()) return std::nullopt;
  CpuLevel level = *base;
  level.name = name;
  for (size_t from = plus; from < name.size();) {
    const size_t next = std::min(name.find('+', from + 1), name.size());
    const std::string extension(name.substr(from + 1, next - from - 1));
    if (!has_extension(*base, extension)) return std::nullopt;
    level.features += (level.features.empty() ? "+" : ",+") + extension;
    level.required = merged(level.required, {extension});
    from = next;
  }
  return level;
}

bool runs_on_host(const CpuLevel& level) {
  return std::ranges::all_of(level.required, [](const std::string& feature) { return host_level().has(feature); });
}

}  // namespace tw::codegen::cpu
