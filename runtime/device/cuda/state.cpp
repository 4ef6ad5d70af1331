#include "runtime/device/cuda/state.h"

#include <cstring>

namespace tw::runtime::cuda {

CudaState::CudaState(const Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes) {
  const Current current(gpu);
  memory_ = DeviceMemory(gpu, bytes, "the state");
}

// On the default stream, which runs wait for.
void CudaState::get(StateRange range, void* to, DLDevice device) {
  if (range.bytes == 0) return;
  const Current current(gpu_);
  const DevicePtr from = memory_.address() + static_cast<DevicePtr>(range.offset);
  const auto bytes = static_cast<size_t>(range.bytes);
  gpu_.driver.check(is_on_gpu(device)
                        ? gpu_.driver.copy_on_device(reinterpret_cast<uintptr_t>(to), from, bytes, nullptr)
                        : gpu_.driver.copy_to_host(to, from, bytes, nullptr),
                    "read a state");
  gpu_.driver.check(gpu_.driver.stream_synchronize(nullptr), "read a state");
}

void CudaState::set(StateRange range, const void* from, DLDevice device) {
  if (range.bytes == 0) return;
  const Current current(gpu_);
  const DevicePtr to = memory_.address() + static_cast<DevicePtr>(range.offset);
  const auto bytes = static_cast<size_t>(range.bytes);
  gpu_.driver.check(is_on_gpu(device)
                        ? gpu_.driver.copy_on_device(to, reinterpret_cast<uintptr_t>(from), bytes, nullptr)
                        : gpu_.driver.copy_to_device(to, from, bytes, nullptr),
                    "write a state");
  gpu_.driver.check(gpu_.driver.stream_synchronize(nullptr), "write a state");
}

void CudaState::to_host(void* to, const void* from, DLDevice device, size_t bytes) {
  if (!is_on_gpu(device)) return static_cast<void>(std::memcpy(to, from, bytes));
  const Current current(gpu_);
  gpu_.driver.check(gpu_.driver.copy_to_host(to, reinterpret_cast<uintptr_t>(from), bytes, nullptr), "read a tensor");
  gpu_.driver.check(gpu_.driver.stream_synchronize(nullptr), "read a tensor");
}

void CudaState::from_host(void* to, DLDevice device, const void* from, size_t bytes) {
  if (!is_on_gpu(device)) return static_cast<void>(std::memcpy(to, from, bytes));
  const Current current(gpu_);
  gpu_.driver.check(gpu_.driver.copy_to_device(reinterpret_cast<uintptr_t>(to), from, bytes, nullptr),
                    "write a tensor");
  gpu_.driver.check(gpu_.driver.stream_synchronize(nullptr), "write a tensor");
}

void CudaState::clear() {
  if (bytes_ == 0) return;
  const Current current(gpu_);
  gpu_.driver.check(gpu_.driver.memset(memory_.address(), 0, bytes_), "clear the state");
  gpu_.driver.check(gpu_.driver.stream_synchronize(nullptr), "clear the state");
}

}  // namespace tw::runtime::cuda
