#include "runtime/device/cuda/gpu.h"

#include <charconv>
#include <chrono>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {

using format::ErrorCode;

namespace {

int count_gpus(const Driver& driver) {
  int count = 0;
  const Result started = driver.init(0);  // repeated calls do nothing
  if (started == kErrorNoDevice) return 0;
  driver.check(started, "start the NVIDIA driver");
  driver.check(driver.device_get_count(&count), "count the GPUs");
  return count;
}

std::string name_of(const Driver& driver, Device device) {
  char name[128] = "";
  driver.device_get_name(name, sizeof(name), device);
  return name;
}

Device open_device(const Driver& driver, int ordinal, const std::string& arch) {
  const int count = count_gpus(driver);
  if (count == 0) {
    format::fail(ErrorCode::kDevice, "the NVIDIA driver finds no GPU; a CUDA artefact needs one (CUDA_VISIBLE_DEVICES ",
                 "can hide it)");
  }
  if (ordinal >= count)
    format::fail(ErrorCode::kDevice, "there is no GPU number ", ordinal, "; the machine has ", count);
  Device device = 0;
  int major = 0, minor = 0;
  driver.check(driver.device_get(&device, ordinal), "open the GPU");
  driver.check(driver.device_get_attribute(&major, kAttributeMajor, device), "ask the GPU");
  driver.check(driver.device_get_attribute(&minor, kAttributeMinor, device), "ask the GPU");
  if (!runs_on(arch, major, minor)) {
    format::fail(ErrorCode::kIncompatible, "the artefact is for ", arch, "; GPU ", ordinal, " (",
                 name_of(driver, device), ") is sm_", major, minor, ": compile the model for that architecture");
  }
  return device;
}

}  // namespace

bool runs_on(const std::string& arch, int major, int minor) {
  if (!arch.starts_with("sm_")) return false;
  int number = 0;
  const char* end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(arch.data() + 3, end, number);
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (error != std::errc()) return false;
  const int capability = 10 * major + minor;
  if (suffix == "a") return number == capability;
  if (suffix == "f") return number / 10 == major && number <= capability;
  return suffix.empty() && number <= capability;
}

std::string gpu_name(const Driver& driver, int ordinal, const std::string& arch) {
  return name_of(driver, open_device(driver, ordinal, arch));
}

Gpu::Gpu(const Driver& driver_in, int ordinal, const std::string& arch)
    : driver(driver_in), ordinal_(ordinal), device_(open_device(driver, ordinal, arch)) {
  driver.check(driver.primary_context_retain(&context_, device_), "open the GPU");
}

DeviceMemory::DeviceMemory(const Gpu& gpu, size_t bytes, const char* what) : gpu_(&gpu) {
  if (bytes == 0) return;
  const Result result = gpu.driver.mem_alloc(&address_, bytes);
  if (result != kErrorOutOfMemory) {
    gpu.driver.check(result, "allocate memory on the GPU");
    return;
  }
  size_t free = 0, total = 0;
  gpu.driver.mem_get_info(&free, &total);
  format::fail(ErrorCode::kOutOfMemory, "the GPU has no ", bytes, " bytes for ", what, ": ", free, " of its ", total,
               " bytes are free");
}

void Gate::hold(const Gpu& gpu, StreamHandle stream) {
  using Shared = std::shared_ptr<std::binary_semaphore>;
  const auto wait = [](void* user) {
    constexpr std::chrono::milliseconds kLongest(5);
    const std::unique_ptr<Shared> opened(static_cast<Shared*>(user));
    static_cast<void>((*opened)->try_acquire_for(kLongest));
  };
  auto opened = std::make_unique<Shared>(opened_);
  gpu.driver.check(gpu.driver.launch_host(stream, wait, opened.get()), "hold a stream");
  static_cast<void>(opened.release());  // the function's from here on
}

EventHandle Events::at(size_t index) {
  while (events_.size() <= index) {
    EventHandle event = nullptr;
    gpu_.driver.check(gpu_.driver.event_create(&event, kEventDefault), "create an event");
    events_.emplace_back(event, Release<&Driver::event_destroy>{&gpu_});
  }
  return events_[index].get();
}

void Events::record(size_t index, StreamHandle stream) {
  gpu_.driver.check(gpu_.driver.event_record(at(index), stream), "time the GPU");
}

void Events::read(std::span<uint64_t> intervals_ns) const {
  for (size_t i = 0; i < intervals_ns.size(); ++i) {
    float ms = 0;
    gpu_.driver.check(gpu_.driver.event_elapsed_ms(&ms, events_[i].get(), events_[i + 1].get()), "time the GPU");
    intervals_ns[i] = static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  }
}

}  // namespace tw::runtime::cuda
