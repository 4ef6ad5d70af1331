// Measures this machine: every parameter of TargetInfo that schedules are built from.
#pragma once
#include "core/target_info.h"
#include "targets/x86_64/host.h"

namespace tw::driver::machine {

/// `defaults` (targets::find_target("cpu")) with measured machine parameters, as they were read: unbounded and
/// unrounded (bounds.h). Levels are those of the system where the latency curve agrees. Uses `cpu.units` threads, up to
/// an eighth of the memory and about 2 s. Throws ResourceError when there is no memory, Unsupported in a build without
/// LLVM.
TargetInfo measure_machine(const TargetInfo& defaults, const targets::HostCpu& cpu);

}  // namespace tw::driver::machine
