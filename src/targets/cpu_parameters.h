// How a row of figures becomes the machine parameters of a CPU that is not measured: defaults of levels, for
// cross-compiling, and known CPUs, for a build that cannot measure. What `tilewright doctor` shows of the machine at
// hand is measured (driver/machine).
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "core/target_info.h"

namespace tw::targets {

/// Of one compute unit alone, contiguous, in bytes a nanosecond (GB/s).
struct LevelRow {
  int64_t bytes;
  int ways;
  double latency_ns;
  double read;
  double write;
  double copy;
  double all = 0;  // of shared levels: read rate of all cores, at most cores * read
};

struct CoreRow {
  std::array<double, 3> flop_per_ns;  // f32 FMA peak of a core by vectors of 16, 32, 64 bytes; 0: none
  double clock_ghz;                   // under that load
};

struct CpuRow {
  std::string_view name;
  CoreRow core;
  LevelRow l1, l2, l3, dram;
};

/// Sets the machine parameters of `info` (memory levels, peaks, costs of regions, units, where they come from) to those
/// of `row`, for vectors up to info.vector_bytes.
void set_parameters(TargetInfo& info, const CpuRow& row, std::string from);
/// Brings what depends on the number of units in line with `units`.
void set_compute_units(TargetInfo& info, int compute_units, const CpuRow& row);

}  // namespace tw::targets
