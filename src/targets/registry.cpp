#include "targets/registry.h"

#include "support/text.h"

namespace tw::targets {
namespace {

std::vector<Target> targets() {
  std::vector<Target> all;
  for (TargetInfo& info : x86_64_levels()) all.push_back({std::move(info), cpu_families()});
  for (TargetInfo& info : aarch64_levels()) all.push_back({std::move(info), cpu_families()});
  for (TargetInfo& info : cuda_architectures()) all.push_back({std::move(info), cuda_families()});
  return all;
}

// "level+b+a" as "level+a+b".
std::string with_sorted_extensions(const std::string& name) {
  const size_t plus = std::min(name.find('+'), name.size());
  std::vector<std::string> extensions;
  for (size_t from = plus; from < name.size();) {
    const size_t next = std::min(name.find('+', from + 1), name.size());
    extensions.push_back(name.substr(from, next - from));
    from = next;
  }
  std::ranges::sort(extensions);
  std::string sorted = name.substr(0, plus);
  for (const std::string& extension : extensions) sorted += extension;
  return sorted;
}

}  // namespace

Target find_target(const std::string& name) {
  if (name == "cpu") return {x86_64_host(), cpu_families()};
  const std::string sorted = with_sorted_extensions(name);
  for (Target& target : targets()) {
    if (target.info.name == sorted) return std::move(target);
  }
  // Of extensions the nearest name is often one that means something else: all are shown.
  const bool has_extension = name.find('+') != std::string::npos;
  throw UsageError("--target {}: there is no such target{}", name,
                   suggestion_or_all(has_extension ? "" : name, target_names()));
}

std::vector<std::string> missing_here(const TargetInfo& target) {
  std::vector<std::string> missing;
  std::ranges::remove_copy_if(target.features, std::back_inserter(missing), x86_64_has);
  return missing;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"cpu"};
  for (const Target& target : targets()) names.push_back(target.info.name);
  return names;
}

}  // namespace tw::targets
