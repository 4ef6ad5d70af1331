// Rows of x86-64 cores: defaults of the levels, and a few known CPUs.
#pragma once
#include "targets/cpu_parameters.h"

namespace tw::targets {

/// The row of a level's defaults: "x86-64" to "x86-64-v4".
const CpuRow& level_row(std::string_view level);
/// The row of a known CPU, or null. `family` and `model` as CPUID displays them.
const CpuRow* known_cpu(int family, int model);

}  // namespace tw::targets
