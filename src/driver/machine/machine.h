// The hardware abstraction: which machine parameters a target has. Measured once per machine and kept in a file.
#pragma once
#include <string>
#include <vector>

#include "driver/machine/parameters_file.h"
#include "targets/registry.h"

namespace tw::driver::machine {

/// The target named `name`, as targets::find_target, "cuda" or "gpu" for the GPU of this machine, and for "cpu" with
/// the machine parameters that options.parameters asks for. Rates of a GPU are those of a data sheet: what was measured
/// of the one here is asked of find_device (device.h).
///
/// The file FOLDER/machine-HASH.json is written atomically; a damaged one is measured anew. Of several processes that
/// find none, one measures and the others wait for it. Machine parameters that cannot be kept are not used (each
/// compilation would measure other ones), except with kMeasuredAnew: where the folder cannot be written, machine
/// parameters are defaults. Never fails for want of machine parameters. Throws UsageError for an unknown name.
targets::Target resolve_target(const std::string& name, const MachineOptions& options);

/// The targets of a comma-separated list of names, each as resolve_target, the widest first: the order in which a
/// runtime prefers them. UsageError when a target is there twice, or when GPU targets are not alone.
std::vector<targets::Target> resolve_targets(const std::string& names, const MachineOptions& options);

/// The file that holds the parameters of this machine, whether it exists or not; empty when there is no folder for it.
std::string parameters_path(const TargetInfo& cpu, const MachineOptions& options);

}  // namespace tw::driver::machine
