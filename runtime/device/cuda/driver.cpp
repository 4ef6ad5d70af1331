#include "runtime/device/cuda/driver.h"

#include <dlfcn.h>

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/cudnn.h"
#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

using format::ErrorCode;

template <typename Function>
void resolve(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr)
    format::fail(ErrorCode::kDevice, "the NVIDIA driver is too old: it has no function ", symbol,
                 "; the driver of CUDA 12.3 (version 545) or a newer one is needed");
}

Driver load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    format::fail(ErrorCode::kDevice, "no NVIDIA driver (", dlerror(), "); a CUDA artefact needs an NVIDIA GPU");
  }
  return resolve_driver(library);
}

}  // namespace

Driver resolve_driver(void* library) {
  Driver driver{};
  resolve(library, "cuInit", driver.init);
  resolve(library, "cuGetErrorString", driver.get_error_string);
  resolve(library, "cuDeviceGetCount", driver.device_get_count);
  resolve(library, "cuDeviceGet", driver.device_get);
  resolve(library, "cuDeviceGetName", driver.device_get_name);
  resolve(library, "cuDeviceGetAttribute", driver.device_get_attribute);
  resolve(library, "cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  resolve(library, "cuDevicePrimaryCtxRelease_v2", driver.primary_context_release);
  resolve(library, "cuCtxPushCurrent_v2", driver.context_push);
  resolve(library, "cuCtxPopCurrent_v2", driver.context_pop);
  resolve(library, "cuModuleLoadData", driver.module_load_data);
  resolve(library, "cuModuleUnload", driver.module_unload);
  resolve(library, "cuModuleGetFunction", driver.module_get_function);
  resolve(library, "cuFuncSetAttribute", driver.function_set_attribute);
  resolve(library, "cuMemAlloc_v2", driver.mem_alloc);
  resolve(library, "cuMemFree_v2", driver.mem_free);
  resolve(library, "cuMemGetInfo_v2", driver.mem_get_info);
  resolve(library, "cuMemsetD8_v2", driver.memset);
  resolve(library, "cuMemcpyHtoDAsync_v2", driver.copy_to_device);
  resolve(library, "cuMemcpyDtoHAsync_v2", driver.copy_to_host);
  resolve(library, "cuMemcpyDtoDAsync_v2", driver.copy_on_device);
  resolve(library, "cuStreamCreate", driver.stream_create);
  resolve(library, "cuStreamSynchronize", driver.stream_synchronize);
  resolve(library, "cuStreamWaitEvent", driver.stream_wait_event);
  resolve(library, "cuStreamDestroy_v2", driver.stream_destroy);
  resolve(library, "cuLaunchHostFunc", driver.launch_host);
  resolve(library, "cuEventCreate", driver.event_create);
  resolve(library, "cuEventRecord", driver.event_record);
  resolve(library, "cuEventElapsedTime", driver.event_elapsed_ms);
  resolve(library, "cuEventDestroy_v2", driver.event_destroy);
  resolve(library, "cuLaunchKernel", driver.launch);
  resolve(library, "cuTensorMapEncodeTiled", driver.tensor_map_encode);
  resolve(library, "cuTensorMapEncodeIm2col", driver.window_map_encode);
  resolve(library, "cuGraphCreate", driver.graph_create);
  resolve(library, "cuGraphAddKernelNode_v2", driver.graph_add_kernel);
  resolve(library, "cuGraphAddMemsetNode", driver.graph_add_memset);
  resolve(library, "cuGraphAddDependencies_v2", driver.graph_add_edges);
  resolve(library, "cuGraphInstantiateWithFlags", driver.graph_instantiate);
  resolve(library, "cuGraphExecKernelNodeSetParams_v2", driver.graph_set_kernel);
  resolve(library, "cuStreamBeginCapture_v2", driver.capture_begin);
  resolve(library, "cuStreamEndCapture", driver.capture_end);
  resolve(library, "cuGraphAddChildGraphNode", driver.graph_add_child);
  resolve(library, "cuGraphExecChildGraphNodeSetParams", driver.graph_set_child);
  resolve(library, "cuGraphLaunch", driver.graph_launch);
  resolve(library, "cuGraphExecDestroy", driver.graph_exec_destroy);
  resolve(library, "cuGraphDestroy", driver.graph_destroy);
  driver.param_info = reinterpret_cast<decltype(driver.param_info)>(dlsym(library, "cuFuncGetParamInfo"));
  driver.open_cublaslt = open_cublaslt;
  driver.open_cudnn = open_cudnn;
  return driver;
}

void Driver::check(Result result, const char* doing) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  if (get_error_string(result, &text) != kSuccess || text == nullptr) text = "unknown error";
  // It has no code for this GPU, or PTX of a newer toolkit than the driver.
  const bool foreign = result == kErrorNoBinaryForGpu || result == kErrorUnsupportedPtxVersion;
  const ErrorCode code = result == kErrorOutOfMemory ? ErrorCode::kOutOfMemory
                         : foreign                   ? ErrorCode::kIncompatible
                                                     : ErrorCode::kDevice;
  // Such a fault stays: CUDA driver API reference manual, CUresult.
  const bool lost = result == 700 || result == 702 || result == 710 || (result >= 714 && result <= 719);
  format::fail(code, "cannot ", doing, ": ", text, " (CUDA error ", result, ")",
               lost ? "; this process cannot use the GPU any more: start it again" : "");
}

const Driver& open_driver() {
  // A failed attempt throws and is repeated at the next call; the library stays open until the process ends.
  static const Driver driver = load_driver();
  return driver;
}

}  // namespace tw::runtime::cuda
