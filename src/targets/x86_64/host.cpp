#include "targets/x86_64/host.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/host/limits.h"

namespace tw::targets {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number at the start of `text`, times 1024 before a 'K' and so on; 0 when there is none.
int64_t parse_bytes(const std::string& text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || value < 0) return 0;
  const char unit = end == text.data() + text.size() ? ' ' : *end;
  return value << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

// CPUs in a list such as "0-3,8".
int count_cpus(const std::string& list) {
  int count = 0;
  for (size_t from = 0; from < list.size();) {
    const std::string part = list.substr(from, list.find(',', from) - from);
    const size_t dash = part.find('-');
    const int64_t last = dash == std::string::npos ? parse_bytes(part) : parse_bytes(part.substr(dash + 1));
    count += static_cast<int>(last - parse_bytes(part) + 1);
    from += part.size() + 1;
  }
  return std::max(count, 1);
}

std::optional<HostCache> sysfs_cache(const std::string& folder) {
  if (first_line(folder + "/type") == "Instruction") return std::nullopt;
  HostCache cache;
  cache.level = static_cast<int>(parse_bytes(first_line(folder + "/level")));
  cache.bytes = parse_bytes(first_line(folder + "/size"));
  cache.ways = static_cast<int>(parse_bytes(first_line(folder + "/ways_of_associativity")));
  const int64_t line = parse_bytes(first_line(folder + "/coherency_line_size"));
  if (line > 0) cache.line_bytes = static_cast<int>(line);
  cache.sharers = count_cpus(first_line(folder + "/shared_cpu_list"));
  if (cache.level <= 0 || cache.bytes <= 0) return std::nullopt;
  return cache;
}

int64_t usable_memory() { return std::min(host::machine_memory().bytes, host::group_memory().bytes); }

#if defined(__x86_64__)

using Registers = std::array<uint32_t, 4>;  // eax, ebx, ecx, edx

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{};
  if (__get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]) == 0) return {};
  return r;
}

// Intel SDM vol. 2, CPUID leaf 4; AMD APM vol. 3, leaf 8000_001D: the same fields.
std::vector<HostCache> cpuid_caches(uint32_t leaf) {
  std::vector<HostCache> caches;
  for (uint32_t i = 0; i < 16; ++i) {
    const Registers r = cpuid(leaf, i);
    const uint32_t type = r[0] & 0x1f;
    if (type == 0) break;
    if (type == 2) continue;  // instructions
    const int64_t line = (r[1] & 0xfff) + 1;
    const int64_t partitions = (r[1] >> 12 & 0x3ff) + 1;
    const int64_t ways = (r[1] >> 22) + 1;
    caches.push_back({static_cast<int>(r[0] >> 5 & 7), ways * partitions * line * (int64_t{r[2]} + 1),
                      static_cast<int>(ways), static_cast<int>(line), static_cast<int>((r[0] >> 14 & 0xfff) + 1)});
  }
  return caches;
}

std::vector<HostCache> cpuid_caches() {
  std::vector<HostCache> caches = cpuid_caches(4);
  return caches.empty() ? cpuid_caches(0x8000001d) : caches;
}

bool avx_vnni() { return (cpuid(7, 1)[0] >> 4 & 1) != 0; }

void identify(HostCpu& cpu) {
  const uint32_t eax = cpuid(1, 0)[0];
  cpu.stepping = static_cast<int>(eax & 0xf);
  const int family = static_cast<int>(eax >> 8 & 0xf);
  cpu.family = family == 15 ? family + static_cast<int>(eax >> 20 & 0xff) : family;
  cpu.model = static_cast<int>((eax >> 4 & 0xf) | (eax >> 12 & 0xf0));
  std::array<char, 49> brand{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002 + i, 0);
    std::memcpy(brand.data() + size_t{16} * i, r.data(), 16);
  }
  const std::string name = brand.data();
  const size_t first = name.find_first_not_of(' ');
  if (first != std::string::npos) cpu.name = name.substr(first, name.find_last_not_of(' ') - first + 1);
}

#else

std::vector<HostCache> cpuid_caches() { return {}; }
bool avx_vnni() { return false; }
void identify(HostCpu&) {}

#endif

}  // namespace

std::vector<HostCache> sysfs_caches(const std::string& folder) {
  std::vector<HostCache> caches;
  for (int i = 0; i < 16; ++i) {
    const std::string index = folder + "/index" + std::to_string(i);
    if (access(index.c_str(), F_OK) != 0) break;
    if (const std::optional<HostCache> cache = sysfs_cache(index)) caches.push_back(*cache);
  }
  std::ranges::stable_sort(caches, {}, &HostCache::level);
  return caches;
}

bool has_avx_vnni() { return avx_vnni(); }

HostCpu host_cpu() {
  HostCpu cpu;
  cpu.name = "unknown";
  identify(cpu);
  cpu.compute_units = host::usable_cpus();
  cpu.memory_bytes = usable_memory();
  cpu.caches = sysfs_caches("/sys/devices/system/cpu/cpu0/cache");
  if (cpu.caches.empty()) cpu.caches = cpuid_caches();
  return cpu;
}

}  // namespace tw::targets
