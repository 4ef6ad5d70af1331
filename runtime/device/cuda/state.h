// The block of a model's states in the memory of a GPU.
#pragma once
#include "runtime/device.h"
#include "runtime/device/cuda/gpu.h"

namespace tw::runtime::cuda {

/// Whether memory of `device` is addressed as a GPU's is.
inline bool is_on_gpu(DLDevice device) { return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged; }

/// Of one or several contexts.
class CudaState : public DeviceState {
 public:
  CudaState(const Gpu& gpu, size_t bytes);
  void get(StateRange range, void* to, DLDevice device) override;
  void set(StateRange range, const void* from, DLDevice device) override;
  void to_host(void* to, const void* from, DLDevice device, size_t bytes) override;
  void from_host(void* to, DLDevice device, const void* from, size_t bytes) override;
  void clear() override;
  DevicePtr address() const { return memory_.address(); }

 private:
  const Gpu& gpu_;
  size_t bytes_;
  DeviceMemory memory_;
};

}  // namespace tw::runtime::cuda
