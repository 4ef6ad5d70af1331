// The rates of the GPU here: measured once when asked for, and kept in a file under the GPU's name.
#pragma once
#include <string>
#include <vector>

#include "core/target_info.h"
#include "driver/machine/parameters_file.h"
#include "measure/executor.h"
#include "support/error.h"

namespace tw::driver::machine {

/// The GPU here that runs code for `target`, with what is known of it.
struct Device {
  std::string name;   // as its driver says; empty: there is none, or it is not asked for
  DeviceRates rates;  // measured ones from the file, else the data sheet's
  std::string file;   // of measured rates, whether it exists or not; empty: there is no folder for it
};

/// kDefaults: the data sheet that stands for the target's architecture; no device is looked for. kMeasured: the file of
/// the GPU here, if there is one, else its data sheet. kMeasuredAnew: measured now and written atomically; where that
/// fails a notice says why, and the data sheet stands. Never fails.
Device find_device(const TargetInfo& target, const MachineOptions& options);

/// What the data sheet says of `gpu`, or of the one that stands for the target `name` ("cuda:sm_90a").
DeviceRates published_rates(const std::string& name, const std::string& gpu);

/// The file's text, and the rates of such a text, or why they are not to be used: no such JSON, another device's, a
/// rate out of its bounds, not the text that device_file_text writes.
std::string device_file_text(const DeviceRates& rates, const std::string& key);
Result<DeviceRates> parse_device_file(const std::string& text, const std::string& key);

/// The rates of the GPU behind `executor`, which runs code for `target`: memory and L2 by bytes that all compute units
/// move, arithmetic by type, the launch of a kernel; medians of runs of a few ms, about 3 s in all. A parameter that is
/// out of its bounds (bounds.h) is 0. `cubin` is that of device_text(). Throws format::Error where the device fails.
DeviceRates measure_device(const TargetInfo& target, const std::vector<std::byte>& cubin, measure::Executor& executor);

/// CUDA C++ of the micro-benchmarks for `target`.
std::string device_text(const TargetInfo& target);

}  // namespace tw::driver::machine
