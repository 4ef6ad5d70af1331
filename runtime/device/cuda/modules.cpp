#include "runtime/device/cuda/modules.h"

#include <algorithm>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {

void Modules::load(const format::Manifest& manifest, const Sections& sections) {
  const Driver& driver = gpu_.driver;
  for (const format::Kernel& kernel : manifest.kernels) {
    auto [found, is_new] = modules_.try_emplace(kernel.section, nullptr, Release<&Driver::module_unload>{&gpu_});
    if (is_new) {
      const format::Bytes cubin = sections(kernel.section);
      ModuleHandle module = nullptr;
      const Result loaded = driver.module_load_data(&module, cubin.data());
      if (loaded != kSuccess) driver.check(loaded, format::join("load a cubin of ", cubin.size(), " bytes").c_str());
      found->second.reset(module);
    }
    FunctionHandle function = nullptr;
    const Result result = driver.module_get_function(&function, found->second.get(), kernel.name.c_str());
    if (result != kSuccess) driver.check(result, format::join("find kernel '", kernel.name, "'").c_str());
    functions_.push_back(function);
  }
}

namespace {

/// Whether a kernel takes a step's arguments, which fill its parameters: the driver reads those that the kernel takes,
/// wherever the step's end. Never asks for one that a well-formed step has not: memory checkers report the refusal.
bool takes_arguments(const Driver& driver, FunctionHandle function, const format::CudaStep& step) {
  size_t end = 0;
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    size_t offset = 0, bytes = 0;
    if (driver.param_info(function, i, &offset, &bytes) != kSuccess) return false;
    end = static_cast<size_t>(step.arguments[i]) + bytes;
    if (end > step.params.size()) return false;
  }
  return end == step.params.size();
}

}  // namespace

/// More than 48 KiB of dynamic shared memory must be asked for once for each kernel.
void Modules::prepare_steps(const format::Manifest& manifest) {
  std::vector<int64_t> wanted(functions_.size(), 0);
  for (const format::Entry& entry : manifest.entries) {
    for (const format::CudaStep& step : entry.cuda_steps) {
      if (!step.call.empty()) continue;
      int64_t& max = wanted[static_cast<size_t>(step.kernel)];
      max = std::max(max, step.shared_bytes);
      const FunctionHandle function = functions_[static_cast<size_t>(step.kernel)];
      if (gpu_.driver.param_info != nullptr && !takes_arguments(gpu_.driver, function, step))
        format::fail(format::ErrorCode::kDamaged, "step '", step.name, "' has other parameters than its kernel takes");
    }
  }
  constexpr int64_t kDefaultLimit = 48 * 1024;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] <= kDefaultLimit) continue;
    gpu_.driver.check(
        gpu_.driver.function_set_attribute(functions_[i], kFunctionMaxDynamicShared, static_cast<int>(wanted[i])),
        format::join("reserve ", wanted[i], " bytes of shared memory for kernel '", manifest.kernels[i].name, "'")
            .c_str());
  }
}

}  // namespace tw::runtime::cuda
