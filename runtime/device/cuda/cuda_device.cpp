#include "runtime/device/cuda/cuda_device.h"

#include <algorithm>
#include <map>

#include "runtime/device/cuda/context.h"
#include "runtime/format/error.h"

namespace tw::runtime {
namespace cuda {
namespace {

class CudaModel : public DeviceModel {
 public:
  CudaModel(const format::Artefact& artefact, const Options& options, const Driver& driver)
      : gpu_(driver, options.device, artefact.manifest().targets.front().arch),
        loaded_{gpu_, artefact.manifest(), {}, 0} {
    const Current current(gpu_);
    upload_weights(artefact.section("weights"));
    try {
      load_kernels(artefact);
    } catch (...) {
      unload();  // the destructor does not run
      throw;
    }
  }
  CudaModel(const CudaModel&) = delete;
  CudaModel& operator=(const CudaModel&) = delete;
  ~CudaModel() override {
    release_on(gpu_, [this] { unload(); });
  }

  std::unique_ptr<DeviceContext> create_context(const Options& options) const override {
    return std::make_unique<CudaContext>(loaded_, options);
  }
  bool accepts(DLDevice device) const override {
    const bool host = device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
    return host || device.device_type == kDLCUDAManaged ||
           (device.device_type == kDLCUDA && device.device_id == gpu_.ordinal());
  }

 private:
  void upload_weights(format::Bytes weights) {
    if (weights.empty()) return;
    weights_ = DeviceMemory(gpu_, weights.size(), "the weights");
    loaded_.weights = weights_.address();
    const Driver& driver = gpu_.driver;
    driver.check(driver.copy_to_device(weights_.address(), weights.data(), weights.size(), nullptr),
                 "copy the weights");
    driver.check(driver.stream_synchronize(nullptr), "copy the weights");
  }

  void load_kernels(const format::Artefact& artefact) {
    const Driver& driver = gpu_.driver;
    for (const format::Kernel& kernel : artefact.manifest().kernels) {
      auto [found, is_new] = modules_.try_emplace(kernel.section, nullptr);
      if (is_new) {
        const format::Bytes cubin = artefact.section(kernel.section);
        const Result loaded = driver.module_load_data(&found->second, cubin.data());
        if (loaded != kSuccess) driver.check(loaded, format::join("load a cubin of ", cubin.size(), " bytes").c_str());
      }
      FunctionHandle function = nullptr;
      const Result result = driver.module_get_function(&function, found->second, kernel.name.c_str());
      if (result != kSuccess) driver.check(result, format::join("find kernel '", kernel.name, "'").c_str());
      loaded_.functions.push_back(function);
    }
    allow_shared_memory();
  }

  /// More than 48 KiB of dynamic shared memory must be asked for once for each kernel.
  void allow_shared_memory() {
    std::vector<int64_t> wanted(loaded_.functions.size(), 0);
    for (const format::Entry& entry : loaded_.manifest.entries) {
      for (const format::CudaStep& step : entry.cuda_steps) {
        int64_t& most = wanted[static_cast<size_t>(step.kernel)];
        most = std::max(most, step.shared_bytes);
      }
    }
    constexpr int64_t kDefaultLimit = 48 * 1024;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] <= kDefaultLimit) continue;
      gpu_.driver.check(gpu_.driver.function_set_attribute(loaded_.functions[i], kFunctionMaxDynamicShared,
                                                           static_cast<int>(wanted[i])),
                        "reserve shared memory");
    }
  }

  void unload() {
    for (const auto& [section, module] : modules_) {
      if (module != nullptr) gpu_.driver.module_unload(module);
    }
  }

  Gpu gpu_;
  Loaded loaded_;
  DeviceMemory weights_;
  std::map<std::string, ModuleHandle> modules_;  // by section
};

}  // namespace

std::unique_ptr<DeviceModel> load_model(const format::Artefact& artefact, const Options& options,
                                        const Driver& driver) {
  return std::make_unique<CudaModel>(artefact, options, driver);
}

}  // namespace cuda

std::unique_ptr<DeviceModel> load_cuda_model(const format::Artefact& artefact, const Options& options) {
  return cuda::load_model(artefact, options, cuda::open_driver());
}

}  // namespace tw::runtime
