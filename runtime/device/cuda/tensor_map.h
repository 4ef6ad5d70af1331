// Descriptions of tensors for bulk copies.
#pragma once
#include <vector>

#include "runtime/device/cuda/driver.h"
#include "runtime/format/manifest.h"

namespace tw::runtime::cuda {

/// Writes the driver's description of the tensor at `address` into the parameter block; returns whether that changed
/// it.
bool encode_map(const Driver& driver, const format::TensorMap& map, DevicePtr address, std::vector<uint8_t>& params);

}  // namespace tw::runtime::cuda
