// AArch64: Armv8.0-A with its vectors of 16 bytes (NEON), for cross-compiling. This machine is none: nothing is
// measured.
#include "targets/cpu_parameters.h"
#include "targets/registry.h"

namespace tw::targets {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Cortex-A76 at 2.6 GHz: two FMA of 16 bytes, two loads and one store of 16 bytes a cycle, latencies of 4, 9 and 30
// cycles (Arm Cortex-A76 Software Optimization Guide, sections 3 and 4; Technical Reference Manual, "Memory system");
// four fifths of these in L1 and two thirds in L2, as rows of x86 have it. DRAM: two channels of LPDDR4X.
constexpr CpuRow kCortexA76 = {"Cortex-A76",
                               {{42, 0, 0}, 2.6},
                               {64 * kKiB, 4, 1.5, 66, 33, 66},
                               {256 * kKiB, 8, 3.5, 28, 22, 25},
                               {2 * kMiB, 16, 11.5, 16, 12, 14, 48},
                               {8 * kGiB, 0, 130, 10, 6, 8, 20}};

}  // namespace

std::vector<TargetInfo> aarch64_levels() {
  TargetInfo info;
  info.kind = DeviceKind::kCpu;
  info.name = "cpu:aarch64";
  info.vector_bytes = 16;
  info.vector_registers = 32;
  info.features = {"fma", "neon"};
  set_parameters(info, kCortexA76, "defaults of Cortex-A76");
  return {info};
}

}  // namespace tw::targets
