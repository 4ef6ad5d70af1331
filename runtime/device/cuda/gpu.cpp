#include "runtime/device/cuda/gpu.h"

#include <charconv>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {

using format::ErrorCode;

bool runs_on(const std::string& arch, int major, int minor) {
  if (!arch.starts_with("sm_")) return false;
  int number = 0;
  const char* end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(arch.data() + 3, end, number);
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (error != std::errc() || number / 10 != major) return false;
  if (suffix == "a") return number % 10 == minor;
  return (suffix.empty() || suffix == "f") && number % 10 <= minor;
}

Gpu::Gpu(const Driver& driver_in, int ordinal, const std::string& arch) : driver(driver_in), ordinal_(ordinal) {
  int count = 0, major = 0, minor = 0;
  driver.check(driver.device_get_count(&count), "count the GPUs");
  if (ordinal >= count)
    format::fail(ErrorCode::kDevice, "there is no GPU number ", ordinal, "; the machine has ", count);
  driver.check(driver.device_get(&device_, ordinal), "open the GPU");
  driver.check(driver.device_get_attribute(&major, kAttributeMajor, device_), "ask the GPU");
  driver.check(driver.device_get_attribute(&minor, kAttributeMinor, device_), "ask the GPU");
  if (!runs_on(arch, major, minor)) {
    char name[128] = "";
    driver.device_get_name(name, sizeof(name), device_);
    format::fail(ErrorCode::kIncompatible, "the artefact is for ", arch, "; GPU ", ordinal, " (", name, ") is sm_",
                 major, minor);
  }
  driver.check(driver.primary_context_retain(&context_, device_), "open the GPU");
}

}  // namespace tw::runtime::cuda
