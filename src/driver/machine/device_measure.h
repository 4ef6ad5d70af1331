// What a GPU does at best, by micro-benchmarks on it.
#pragma once
#include "core/target_info.h"
#include "measure/executor.h"

namespace tw::driver::machine {

/// The rates of the GPU behind `executor`, which runs code for `target`: memory and L2 by bytes that all compute units
/// move, arithmetic by type, the launch of a kernel; medians of runs of a few ms, about 3 s in all. A parameter that is
/// out of its bounds (bounds.h) is 0. `cubin` is that of device_text(). Throws format::Error where the device fails.
DeviceRates measure_device(const TargetInfo& target, const std::vector<std::byte>& cubin, measure::Executor& executor);

/// CUDA C++ of the micro-benchmarks for `target`.
std::string device_text(const TargetInfo& target);

}  // namespace tw::driver::machine
