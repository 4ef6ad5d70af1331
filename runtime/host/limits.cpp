#include "runtime/host/limits.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace tw::host {
namespace {

constexpr int64_t kNoLimitV1 = int64_t{1} << 62;  // and above: how version 1 spells "none", less the size of a page
constexpr int64_t kKib = 1024;                    // bytes, the unit of /proc/meminfo

/// Bytes of the first number in a file; `missing` where there is none ("max", no file).
int64_t read_number(const std::string& file, int64_t missing) {
  int64_t number = 0;
  return std::ifstream(file) >> number ? number : missing;
}

/// The sum of the named rows of a file of "name number" lines.
int64_t sum_of_rows(const std::string& file, std::initializer_list<std::string_view> names) {
  std::ifstream rows(file);
  int64_t sum = 0, number = 0;
  for (std::string name; rows >> name;) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      rows.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    } else if (rows >> number) {
      sum += number;
    }
  }
  return sum;
}

bool has_word(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string w; std::getline(words, w, ',');) {
    if (w == word) return true;
  }
  return false;
}

/// Folders of one hierarchy, from this process's group up to where it is mounted.
struct Hierarchy {
  std::string mount;  // with the root of tests in front
  std::string path;   // of the group below it: "/a/b", or empty

  template <typename Visit>
  void for_each_level(const Visit& visit) const {
    for (std::string below = path;;) {
      visit(mount + below, below.empty() ? std::string("/") : below);
      if (below.empty()) return;
      below.resize(below.rfind('/'));
    }
  }
};

/// The group of this process in the hierarchy of `controller` ("" for version 2): its line in /proc/self/cgroup.
bool find_group(const std::string& root, const std::string& controller, std::string& group) {
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !controllers.empty() : !has_word(controllers, controller)) continue;
    group = line.substr(second + 1);
    return true;
  }
  return false;
}

/// The hierarchy of `controller` ("" for version 2), if it is mounted. A mount may show a part of it only, as in
/// containers: then the group's path is looked for below that part.
bool find_hierarchy(const std::string& root, const std::string& controller, Hierarchy& found) {
  std::string group;
  if (!find_group(root, controller, group)) return false;
  const std::string wanted_type = controller.empty() ? "cgroup2" : "cgroup";
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, device, shown, mount, word, type, source, options;
    words >> id >> parent >> device >> shown >> mount;
    while (words >> word && word != "-") continue;
    words >> type >> source >> options;
    if (type != wanted_type || (!controller.empty() && !has_word(options, controller))) continue;
    found.mount = root + mount;
    if (shown == "/") {
      found.path = group;
    } else if (group.rfind(shown, 0) == 0) {
      found.path = group.substr(shown.size());
    } else {
      found.path.clear();
    }
    while (!found.path.empty() && found.path.back() == '/') found.path.pop_back();
    return true;
  }
  return false;
}

/// Names of the files of one version.
struct MemoryFiles {
  const char *limit, *used, *inactive_cache, *active_cache;
};
constexpr MemoryFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};
constexpr MemoryFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};

void tighten(MemoryLimit& limit, const Hierarchy& groups, const MemoryFiles& files) {
  groups.for_each_level([&](const std::string& folder, const std::string& name) {
    const int64_t bytes = read_number(folder + files.limit, kUnlimited);
    if (bytes >= kNoLimitV1) return;
    const int64_t cache = sum_of_rows(folder + "/memory.stat", {files.inactive_cache, files.active_cache});
    const int64_t used = std::max<int64_t>(read_number(folder + files.used, 0) - cache, 0);
    const int64_t available = std::max<int64_t>(bytes - used, 0);
    if (available < limit.available) limit = {bytes, available, "control group '" + name + "'"};
  });
}

double quota_of(const Hierarchy& groups, const std::string& folder_quota_file) {
  double cpus = std::numeric_limits<double>::infinity();
  groups.for_each_level([&](const std::string& folder, const std::string&) {
    double quota = 0, period = 0;
    if (folder_quota_file.empty()) {
      if (!(std::ifstream(folder + "/cpu.max") >> quota >> period)) return;
    } else {
      quota = static_cast<double>(read_number(folder + folder_quota_file, -1));
      period = static_cast<double>(read_number(folder + "/cpu.cfs_period_us", 0));
    }
    if (quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  });
  return cpus;
}

}  // namespace

MemoryLimit machine_memory() {
  const std::string file = "/proc/meminfo";
  const int64_t all = sum_of_rows(file, {"MemTotal:"}) * kKib;
  if (all == 0) return {kUnlimited, kUnlimited, "the machine"};
  return {all, sum_of_rows(file, {"MemAvailable:", "SwapFree:"}) * kKib, "the machine"};
}

MemoryLimit group_memory(const std::string& root) {
  MemoryLimit limit;
  Hierarchy groups;
  if (find_hierarchy(root, "", groups)) tighten(limit, groups, kVersion2);
  if (find_hierarchy(root, "memory", groups)) tighten(limit, groups, kVersion1);
  return limit;
}

MemoryLimit memory_limit() {
  MemoryLimit machine = machine_memory(), group = group_memory();
  return group.available < machine.available ? group : machine;
}

double cpu_quota(const std::string& root) {
  double cpus = std::numeric_limits<double>::infinity();
  Hierarchy groups;
  if (find_hierarchy(root, "", groups)) cpus = std::min(cpus, quota_of(groups, ""));
  if (find_hierarchy(root, "cpu", groups)) cpus = std::min(cpus, quota_of(groups, "/cpu.cfs_quota_us"));
  return cpus;
}

int affinity_cpus() {
  // A fixed cpu_set_t holds 1024 CPUs, and the kernel refuses a set that is too small for the machine; 8192 are the
  // most that Linux is built for.
  std::array<cpu_set_t, 8> mask{};
  if (sched_getaffinity(0, sizeof(mask), mask.data()) != 0) return 1;
  return std::max(CPU_COUNT_S(sizeof(mask), mask.data()), 1);
}

int usable_cpus() {
  // Rounded down: what a thread more uses is taken from all of them, and each barrier waits for the one that is
  // stopped.
  const double quota = std::floor(cpu_quota());
  const int cpus = affinity_cpus();
  return quota < cpus ? std::max(static_cast<int>(quota), 1) : cpus;
}

}  // namespace tw::host
