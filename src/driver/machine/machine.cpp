#include "driver/machine/machine.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "driver/machine/bounds.h"
#include "driver/machine/measure.h"
#include "measure/cuda_executor.h"
#include "runtime/format/atomic_file.h"
#include "runtime/format/error.h"
#include "support/file_lock.h"
#include "support/hash.h"
#include "support/text.h"

namespace tw::driver::machine {
namespace {

constexpr double kPatienceSeconds = 10;  // with another process that measures: five times as long as it takes
constexpr size_t kHashDigits = 16;

std::string path_in(const std::string& folder, const std::string& key) {
  return folder + "/machine-" + content_hash(key).substr(0, kHashDigits) + ".json";
}

class Resolver {
 public:
  Resolver(const TargetInfo& defaults, const MachineOptions& options)
      : defaults_(defaults),
        options_(options),
        cpu_(targets::host_cpu()),
        key_(machine_key(cpu_, defaults)),
        folder_(parameters_folder(options)) {}

  TargetInfo resolve() {
    if (options_.parameters == Parameters::kMeasured) {
      if (std::optional<TargetInfo> kept = load()) return *kept;
    }
    std::error_code ignored;  // what matters is whether the lock's file can be opened
    std::filesystem::create_directories(folder_, ignored);
    const FileLock lock(folder_.empty() ? "" : folder_ + "/machine.lock",
                        {kPatienceSeconds, {}, [this](const std::string& sentence) { notice(sentence); }});
    const std::string unlocked = why_not_kept(lock);
    if (options_.parameters == Parameters::kMeasured) {
      if (!unlocked.empty()) return use_defaults(unlocked);
      if (std::optional<TargetInfo> kept = load()) return *kept;  // another process has measured meanwhile
      if (!damage_.empty()) notice(fmt::format("'{}' is not used: {}", path(), damage_));
    }
    return measure_and_keep(unlocked);
  }

 private:
  std::string path() const { return path_in(folder_, key_); }

  void notice(const std::string& sentence) const {
    if (options_.notice) options_.notice(sentence);
  }

  TargetInfo use_defaults(const std::string& reason) const {
    notice(fmt::format("machine parameters are {}: {}", defaults_.parameters_from, reason));
    return defaults_;
  }

  std::optional<TargetInfo> load() {
    damage_.clear();
    std::ifstream file(path(), std::ios::binary);
    if (folder_.empty() || !file) return std::nullopt;
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Result<TargetInfo> parameters = parse_parameters(text, key_, defaults_);
    if (parameters.ok()) return std::move(parameters).value();
    damage_ = parameters.reason();
    return std::nullopt;
  }

  // Why machine parameters cannot be kept under this lock; empty when they can.
  std::string why_not_kept(const FileLock& lock) const {
    if (folder_.empty()) return "there is no cache folder (HOME and XDG_CACHE_HOME are not set)";
    if (!lock.has_file()) return fmt::format("the cache folder '{}' cannot be written", folder_);
    return lock.is_held() ? "" : fmt::format("{} holds '{}/machine.lock'", lock.holder(), folder_);
  }

  TargetInfo measure_and_keep(const std::string& unlocked) const {
    notice("measuring this machine once, about 2 s");
    TargetInfo info;
    try {
      info =
          plausible(options_.measure ? options_.measure(defaults_, cpu_) : measure_machine(defaults_, cpu_), defaults_);
    } catch (const Unsupported& error) {
      return use_defaults(error.what());
    } catch (const ResourceError& error) {
      return use_defaults(error.what());
    }
    const std::string problem = unlocked.empty() ? keep(info) : unlocked;
    if (problem.empty()) return info;
    if (options_.parameters == Parameters::kMeasured) return use_defaults(problem);
    notice(fmt::format("the machine parameters are not kept: {}", problem));
    return info;
  }

  // Writes the file; returns why that failed, or nothing.
  std::string keep(const TargetInfo& info) const {
    const std::string text = parameters_text(info, key_);
    try {
      format::write_file_atomically(path(), format::bytes_of(text));
      return "";
    } catch (const format::Error& error) {
      return error.what();
    }
  }

  const TargetInfo& defaults_;
  const MachineOptions& options_;
  targets::HostCpu cpu_;
  std::string key_;
  std::string folder_;
  std::string damage_;  // why the file that is there cannot be used
};

// The target for the GPU of this machine.
std::string target_of_gpu_here(const std::string& spelled) {
  std::vector<std::string> names;
  std::string reason;
  for (const std::string& name : targets::target_names()) {
    if (!name.starts_with("cuda:")) continue;
    const Result<std::string> gpu = measure::find_gpu(architecture(targets::find_target(name).info));
    if (gpu.ok()) return name;
    names.push_back(name);
    if (reason.empty()) reason = gpu.reason();
  }
  throw UsageError(
      "--target {} is the GPU of this machine, and none can be used ({}); to compile for another machine, "
      "give {}",
      spelled, reason, list_text(names, "or"));
}

}  // namespace

targets::Target resolve_target(const std::string& name, const MachineOptions& options) {
  const bool is_gpu_here = name == "cuda" || name == "gpu";
  targets::Target target = targets::find_target(is_gpu_here ? target_of_gpu_here(name) : name);
  if (name == "cpu" && options.known) {
    target.info = *options.known;
  } else if (name == "cpu" && options.parameters != Parameters::kDefaults) {
    const TargetInfo defaults = target.info;
    target.info = Resolver(defaults, options).resolve();
  }
  return target;
}

std::vector<targets::Target> resolve_targets(const std::string& names, const MachineOptions& options) {
  std::vector<targets::Target> targets;
  for (size_t from = 0; from <= names.size();) {
    const size_t comma = std::min(names.find(',', from), names.size());
    targets::Target target = resolve_target(names.substr(from, comma - from), options);
    if (std::ranges::any_of(targets, [&](const targets::Target& t) { return t.info.name == target.info.name; }))
      throw UsageError("--target {}: {} is there twice", names, target.info.name);
    targets.push_back(std::move(target));
    from = comma + 1;
  }
  const auto is_cpu = [](const targets::Target& t) { return t.info.kind == DeviceKind::kCpu; };
  if (targets.size() > 1 && !std::ranges::all_of(targets, is_cpu))
    throw UsageError("--target {}: several targets of one artefact are CPU levels", names);
  std::ranges::stable_sort(targets, std::greater<>(), [](const targets::Target& t) { return t.info.features.size(); });
  return targets;
}

std::string parameters_path(const TargetInfo& cpu, const MachineOptions& options) {
  const std::string folder = parameters_folder(options);
  return folder.empty() ? "" : path_in(folder, machine_key(targets::host_cpu(), cpu));
}

}  // namespace tw::driver::machine
