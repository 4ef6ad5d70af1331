// What NVIDIA's data sheets say of whole GPUs.
#pragma once
#include <string_view>

#include "core/target_info.h"

namespace tw::targets {

/// The rates of the GPU that calls itself `gpu` ("NVIDIA H100 80GB HBM3"); of one without a row those of the data sheet
/// that stands for `architecture` ("sm_90a"), of another architecture none.
DeviceRates data_sheet(std::string_view gpu, std::string_view architecture);

}  // namespace tw::targets
