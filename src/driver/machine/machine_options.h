// Which machine parameters are wanted, and where they are kept.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/target_info.h"
#include "targets/x86_64/host.h"

namespace tw::driver::machine {

enum class Parameters : uint8_t {
  kDefaults,      // of the target "cpu" too: nothing is read, measured or written
  kMeasured,      // this machine's: from the file, measured when there is none
  kMeasuredAnew,  // measured now
};

struct MachineOptions {
  Parameters parameters = Parameters::kDefaults;
  /// Gets a sentence when measuring begins, and when machine parameters are defaults or a file is not used, with the
  /// reason.
  std::function<void(const std::string&)> notice;
  std::string folder;  // of the file; empty: cache_folder() of support/folders.h
  /// Measures; empty: measure_machine. Tests give another one.
  std::function<TargetInfo(const TargetInfo& defaults, const targets::HostCpu& cpu)> measure;
  /// What "cpu" was resolved to before: taken as it is, so that one command waits, measures and decides once.
  std::optional<TargetInfo> known;
};

}  // namespace tw::driver::machine
