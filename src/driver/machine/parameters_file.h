// Measured machine parameters as a file: for which machine they hold, and their values. JSON, one spelling only.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/target_info.h"
#include "support/error.h"
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

/// The folder of all files of machine parameters: the one asked for, else the cache folder; empty when there is none.
std::string parameters_folder(const MachineOptions& options);

/// Counts up when a micro-benchmark changes: machine parameters of an earlier number are measured anew.
constexpr int kMeasurement = 2;

/// What must be equal for machine parameters to hold: CPU, its numbers, the CPUs that may be used, caches, the target's
/// level and kMeasurement; one line of JSON. Not the microcode, which changes with every update of the system.
std::string machine_key(const targets::HostCpu& cpu, const TargetInfo& target);

/// The file's text.
std::string parameters_text(const TargetInfo& info, const std::string& key);

/// `defaults` with the machine parameters of `text`, or why they are not to be used: no such JSON, another machine's, a
/// parameter out of its bounds (bounds.h), not the text that parameters_text writes.
Result<TargetInfo> parse_parameters(const std::string& text, const std::string& key, const TargetInfo& defaults);

/// What plans keep of a target, so that all that its machine parameters decide is decided by the same ones once more: a
/// line of JSON.
std::string machine_line(const TargetInfo& info);
/// `target` with the units and parameters of a line of machine_line(), or why it is none.
Result<TargetInfo> with_machine_line(const TargetInfo& target, const std::string& line);

}  // namespace tw::driver::machine
