// One GPU and the objects that live on it, each released by its destructor.
#pragma once
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cuda/driver.h"

namespace tw::runtime::cuda {

/// The name of GPU number `ordinal`. Throws Error(kDevice) if there is no such GPU, kIncompatible if it cannot run code
/// for `arch`.
std::string gpu_name(const Driver& driver, int ordinal, const std::string& arch);

/// A device with its primary context retained: the one that CUDA libraries of the host program use too.
class Gpu {
 public:
  /// Throws as gpu_name().
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

/// Whether an artefact for `arch` ("sm_80", "sm_90a") runs on a device of compute capability major.minor: any that is
/// not lower, where the driver translates the PTX beside the cubins; with a suffix `f` those of the same major, with
/// `a` that one alone. Source: CUDA C++ programming guide, binary and PTX compatibility.
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

/// Runs `release` with a GPU current, if it can be made so: for destructors, which must not throw.
template <typename Release>
void release_on(const Gpu& gpu, Release release) {
  if (gpu.driver.context_push(gpu.context()) != kSuccess) return;
  release();
  ContextHandle popped = nullptr;
  gpu.driver.context_pop(&popped);
}

/// Gives an object back to the driver by the function `Destroy`.
template <auto Destroy>
struct Release {
  const Gpu* gpu = nullptr;
  void operator()(auto* object) const {
    release_on(*gpu, [&] { (gpu->driver.*Destroy)(object); });
  }
};
/// An object of a GPU's driver.
template <typename Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Release<Destroy>>;

/// Device memory; address 0 when empty. 256-byte aligned.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Contents are undefined. The GPU is current. Throws Error(kOutOfMemory) with the bytes wanted and free; `what`
  /// names them.
  DeviceMemory(const Gpu& gpu, size_t bytes, const char* what);
  DeviceMemory(DeviceMemory&& other) noexcept
      : gpu_(std::exchange(other.gpu_, nullptr)), address_(std::exchange(other.address_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~DeviceMemory() {
    if (address_ != 0) release_on(*gpu_, [this] { gpu_->driver.mem_free(address_); });
  }
  DevicePtr address() const { return address_; }

 private:
  const Gpu* gpu_ = nullptr;
  DevicePtr address_ = 0;
};

class Stream {
 public:
  explicit Stream(const Gpu& gpu, unsigned flags = kStreamDefault) : stream_(nullptr, {&gpu}) {
    const Current current(gpu);
    StreamHandle handle = nullptr;
    gpu.driver.check(gpu.driver.stream_create(&handle, flags), "create a stream");
    stream_.reset(handle);
  }
  StreamHandle handle() const { return stream_.get(); }

 private:
  Owned<StreamHandle, &Driver::stream_destroy> stream_;
};

/// Numbered marks in the work of a stream, made when first used, and the times between them.
class Events {
 public:
  explicit Events(const Gpu& gpu) : gpu_(gpu) {}
  /// Puts mark `index` behind the work that `stream` has so far. The GPU is current.
  void record(size_t index, StreamHandle stream);
  /// What is put on `stream` from now on waits for mark `index`, as it was recorded last. The GPU is current.
  Result follow(size_t index, StreamHandle stream) const {
    return gpu_.driver.stream_wait_event(stream, events_[index].get(), 0);
  }
  /// intervals_ns[i] = time of mark i + 1 minus time of mark i, both recorded and reached.
  void read(std::span<uint64_t> intervals_ns) const;

 private:
  EventHandle at(size_t index);

  const Gpu& gpu_;
  std::vector<Owned<EventHandle, &Driver::event_destroy>> events_;
};

/// Holds a stream while work is submitted to it: where that takes longer than the work, times would be the host's.
class Gate {
 public:
  /// Work submitted from now on waits for open(), or a few milliseconds: the queue of a stream is not endless.
  void hold(const Gpu& gpu, StreamHandle stream);
  /// Once at most.
  void open() { opened_->release(); }

 private:
  std::shared_ptr<std::binary_semaphore> opened_ =
      std::make_shared<std::binary_semaphore>(0);  // what waits has it, too
};

}  // namespace tw::runtime::cuda
