// One GPU and the objects that live on it, each released by its destructor.
#pragma once
#include <string>
#include <utility>

#include "runtime/device/cuda/driver.h"

namespace tw::runtime::cuda {

/// A device with its primary context retained: the one that CUDA libraries of the host program use too.
class Gpu {
 public:
  /// Throws Error(kDevice) if there is no GPU number `ordinal`, kIncompatible if it cannot run code for `arch`.
  Gpu(const Driver& driver, int ordinal, const std::string& arch);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() { driver.primary_context_release(device_); }

  const Driver& driver;
  ContextHandle context() const { return context_; }
  int ordinal() const { return ordinal_; }

 private:
  int ordinal_;
  Device device_ = 0;
  ContextHandle context_ = nullptr;
};

/// Whether code for `arch` ("sm_80", "sm_90a") runs on a device of compute capability major.minor: the same major, at
/// least the minor; with a suffix `a` exactly the same. Source: CUDA C++ programming guide, binary compatibility.
bool runs_on(const std::string& arch, int major, int minor);

/// Makes a GPU's context the calling thread's for a scope.
class Current {
 public:
  explicit Current(const Gpu& gpu) : gpu_(gpu) {
    gpu.driver.check(gpu.driver.context_push(gpu.context()), "use the GPU");
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    ContextHandle popped = nullptr;
    gpu_.driver.context_pop(&popped);
  }

 private:
  const Gpu& gpu_;
};

/// Device memory; address 0 when empty. 256-byte aligned.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Contents are undefined. The GPU is current.
  DeviceMemory(const Gpu& gpu, size_t bytes, const char* doing) : gpu_(&gpu) {
    if (bytes != 0) gpu.driver.check(gpu.driver.mem_alloc(&address_, bytes), doing);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : gpu_(std::exchange(other.gpu_, nullptr)), address_(std::exchange(other.address_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~DeviceMemory() {
    if (address_ == 0 || gpu_->driver.context_push(gpu_->context()) != kSuccess) return;
    gpu_->driver.mem_free(address_);
    ContextHandle popped = nullptr;
    gpu_->driver.context_pop(&popped);
  }
  DevicePtr address() const { return address_; }

 private:
  const Gpu* gpu_ = nullptr;
  DevicePtr address_ = 0;
};

}  // namespace tw::runtime::cuda
