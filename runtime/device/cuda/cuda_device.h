// Loading a CUDA artefact through a given driver: the seam at which tests put a driver of their own.
#pragma once
#include <memory>

#include "runtime/device.h"
#include "runtime/device/cuda/driver.h"

namespace tw::runtime::cuda {

/// Like load_cuda_model of runtime/device.h. `driver` and `artefact` must outlive the result.
std::unique_ptr<DeviceModel> load_model(const format::Artefact& artefact, const Options& options, const Driver& driver);

}  // namespace tw::runtime::cuda
