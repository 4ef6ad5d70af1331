#include "support/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

namespace tw {
namespace {

int64_t read_number(const char* file) {
  int64_t number = 0;
  return std::ifstream(file) >> number ? number : std::numeric_limits<int64_t>::max();
}

}  // namespace

int64_t available_memory() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    if (word == "MemAvailable:" && meminfo >> available) available *= 1024;
  }
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max");  // "max": no number
  if (limit == std::numeric_limits<int64_t>::max()) return available;
  return std::min(available, limit - std::min(limit, read_number("/sys/fs/cgroup/memory.current")));
}

int processes_that_fit(int64_t bytes) {
  const auto cpus = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<int>(std::clamp<int64_t>(available_memory() / bytes, 1, cpus));
}

}  // namespace tw
