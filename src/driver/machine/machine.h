// The hardware abstraction: which figures of its machine a target has. Measured once per machine and kept in a file.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "targets/registry.h"
#include "targets/x86_64/host.h"

namespace tw::driver::machine {

enum class Figures : uint8_t {
  kDefaults,      // of the target "cpu" too: nothing is read, measured or written
  kMeasured,      // this machine's: from the file, measured when there is none
  kMeasuredAnew,  // measured now
};

struct HalOptions {
  Figures figures = Figures::kDefaults;
  /// Gets a sentence when measuring begins, and when figures are defaults or a file is not used, with the reason.
  std::function<void(const std::string&)> notice;
  std::string folder;  // of the file; empty: cache_folder() of support/folders.h
  /// Measures; empty: measure_machine. Tests give another one.
  std::function<TargetInfo(const TargetInfo& defaults, const targets::HostCpu& cpu)> measure;
};

/// The target named `name`, as targets::find_target, and for "cpu" with the figures that options.figures asks for. For
/// a GPU with the rates that were measured of the one here, if any were (device.h).
///
/// The file FOLDER/hal-HASH.json is written atomically; a damaged one is measured anew. Of several processes that find
/// none, one measures and the others wait for it. Figures that cannot be kept are not used (each compilation would
/// measure other ones), except with kMeasuredAnew: where the folder cannot be written, figures are defaults. Never
/// fails for want of figures. Throws UsageError for an unknown name.
targets::Target resolve_target(const std::string& name, const HalOptions& options);

/// The targets of a comma-separated list of names, each as resolve_target, the widest first: the order in which a
/// runtime prefers them. UsageError when a target is there twice, or when GPU targets are not alone.
std::vector<targets::Target> resolve_targets(const std::string& names, const HalOptions& options);

/// The file that holds the figures of this machine, whether it exists or not; empty when there is no folder for it.
std::string figures_path(const TargetInfo& cpu, const HalOptions& options);

}  // namespace tw::driver::machine
