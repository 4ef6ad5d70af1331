#include "runtime/device/cuda/cuda_device.h"

#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/modules.h"
#include "runtime/device/cuda/state.h"

namespace tw::runtime {
namespace cuda {
namespace {

class CudaModel : public DeviceModel {
 public:
  CudaModel(const format::Artefact& artefact, const Options& options, const Driver& driver)
      : gpu_(driver, options.device, artefact.manifest().targets.front().arch),
        loaded_{gpu_, artefact.manifest(), {}, 0} {
    const Current current(gpu_);
    open_libraries();
    upload_weights(artefact.section("weights"));
    modules_.emplace(gpu_, artefact.manifest(), [&](const std::string& name) { return artefact.section(name); });
    loaded_.functions = modules_->functions();
  }

  std::unique_ptr<DeviceState> create_state(const Options&) const override {
    return std::make_unique<CudaState>(gpu_, static_cast<size_t>(loaded_.manifest.state_bytes()));
  }
  std::unique_ptr<DeviceContext> create_context(const Options& options, DeviceState& state) const override {
    return std::make_unique<CudaContext>(loaded_, options, static_cast<CudaState&>(state).address());
  }
  bool accepts(DLDevice device) const override {
    const bool host = device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
    return host || device.device_type == kDLCUDAManaged ||
           (device.device_type == kDLCUDA && device.device_id == gpu_.ordinal());
  }

 private:
  // Said when a model is loaded rather than when a context is made.
  void open_libraries() const {
    for (const format::Entry& entry : loaded_.manifest.entries) {
      for (const format::CudaStep& step : entry.cuda_steps) {
        if (!step.call.empty()) Calls::open(gpu_.driver, step.call);
      }
    }
  }

  void upload_weights(format::Bytes weights) {
    if (weights.empty()) return;
    weights_ = DeviceMemory(gpu_, weights.size(), "the weights");
    loaded_.weights = weights_.address();
    const Driver& driver = gpu_.driver;
    driver.check(driver.copy_to_device(weights_.address(), weights.data(), weights.size(), nullptr),
                 "copy the weights");
    driver.check(driver.stream_synchronize(nullptr), "copy the weights");
  }

  Gpu gpu_;
  Loaded loaded_;
  DeviceMemory weights_;
  std::optional<Modules> modules_;
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
