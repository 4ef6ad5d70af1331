// The part of the CUDA driver interface that the runtime uses, with declarations of our own: nothing of the CUDA
// toolkit is needed to build, and the driver library is opened when the first CUDA artefact is loaded. Names, types and
// numbers are those of cuda.h (CUDA driver API reference manual, 12.x).
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/device/cuda/handles.h"

namespace tw::runtime::cuda {

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorNoDevice = 100;
inline constexpr Result kErrorNoBinaryForGpu = 209;
inline constexpr Result kErrorUnsupportedPtxVersion = 222;
inline constexpr int kAttributeMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kAttributeMinor = 76;
inline constexpr int kFunctionMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr unsigned kStreamDefault = 0;        // ordered after work in the legacy default stream
inline constexpr unsigned kStreamNonBlocking = 1;    // not so
inline constexpr unsigned kEventDefault = 0;
inline constexpr int kCaptureRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED: what is captured may load kernels

/// CUDA_KERNEL_NODE_PARAMS_v2: one kernel launch. The driver copies all that the pointers lead to.
struct KernelNodeParams {
  FunctionHandle function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
  unsigned shared_bytes;
  void** params;        // of each argument
  void** extra;         // null: another form of them
  void* kernel;         // read only where `function` is null
  ContextHandle owner;  // ignored: that of `function`
};
static_assert(sizeof(KernelNodeParams) == 72, "the layout of cuda.h");

/// CUDA_MEMSET_NODE_PARAMS: `width` elements of so many bytes, in rows that are `pitch` bytes apart.
struct MemsetNodeParams {
  DevicePtr to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(MemsetNodeParams) == 40, "the layout of cuda.h");

// Arguments of cuTensorMapEncodeTiled: CU_TENSOR_MAP_DATA_TYPE_UINT8 and _UINT16 (bits are copied as they are),
// _SWIZZLE_32B to _128B, _L2_PROMOTION_L2_256B.
inline constexpr int kTensorBytes1 = 0, kTensorBytes2 = 1, kTensorBytes4 = 2, kTensorBytes8 = 4;
inline constexpr int kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3, kPromotion256 = 3;

/// CUgraphEdgeData: what of the node before an edge waits for.
struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
/// The node behind starts when all blocks of the one before have allowed it, and waits itself for its end
/// (CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC).
inline constexpr EdgeData kOverlapping = {1, 0, 1, {}};

/// Entry points, with their symbols in the library: of CUDA 12.3 or older, but param_info (12.4), which may be null.
struct Driver {
  Result (*init)(unsigned flags);                                            // cuInit
  Result (*get_error_string)(Result error, const char** text);               // cuGetErrorString
  Result (*device_get_count)(int* count);                                    // cuDeviceGetCount
  Result (*device_get)(Device* device, int ordinal);                         // cuDeviceGet
  Result (*device_get_name)(char* name, int length, Device device);          // cuDeviceGetName
  Result (*device_get_attribute)(int* value, int attribute, Device device);  // cuDeviceGetAttribute
  Result (*primary_context_retain)(ContextHandle* context, Device device);   // cuDevicePrimaryCtxRetain
  Result (*primary_context_release)(Device device);                          // cuDevicePrimaryCtxRelease_v2
  Result (*context_push)(ContextHandle context);                             // cuCtxPushCurrent_v2
  Result (*context_pop)(ContextHandle* context);                             // cuCtxPopCurrent_v2
  Result (*module_load_data)(ModuleHandle* module, const void* image);       // cuModuleLoadData
  Result (*module_unload)(ModuleHandle module);                              // cuModuleUnload
  Result (*module_get_function)(FunctionHandle* function, ModuleHandle module,
                                const char* name);                                              // cuModuleGetFunction
  Result (*function_set_attribute)(FunctionHandle function, int attribute, int value);          // cuFuncSetAttribute
  Result (*param_info)(FunctionHandle function, size_t index, size_t* offset, size_t* bytes);   // cuFuncGetParamInfo
  Result (*mem_alloc)(DevicePtr* pointer, size_t bytes);                                        // cuMemAlloc_v2
  Result (*mem_free)(DevicePtr pointer);                                                        // cuMemFree_v2
  Result (*mem_get_info)(size_t* free, size_t* total);                                          // cuMemGetInfo_v2
  Result (*memset)(DevicePtr pointer, unsigned char value, size_t bytes);                       // cuMemsetD8_v2
  Result (*copy_to_device)(DevicePtr to, const void* from, size_t bytes, StreamHandle stream);  // cuMemcpyHtoDAsync_v2
  Result (*copy_to_host)(void* to, DevicePtr from, size_t bytes, StreamHandle stream);          // cuMemcpyDtoHAsync_v2
  Result (*copy_on_device)(DevicePtr to, DevicePtr from, size_t bytes, StreamHandle stream);    // cuMemcpyDtoDAsync_v2
  Result (*stream_create)(StreamHandle* stream, unsigned flags);                                // cuStreamCreate
  Result (*stream_synchronize)(StreamHandle stream);                                            // cuStreamSynchronize
  Result (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags);          // cuStreamWaitEvent
  Result (*stream_destroy)(StreamHandle stream);                                                // cuStreamDestroy_v2
  Result (*launch_host)(StreamHandle stream, void (*function)(void* user), void* user);         // cuLaunchHostFunc
  Result (*event_create)(EventHandle* event, unsigned flags);                                   // cuEventCreate
  Result (*event_record)(EventHandle event, StreamHandle stream);                               // cuEventRecord
  Result (*event_elapsed_ms)(float* ms, EventHandle start, EventHandle end);                    // cuEventElapsedTime
  Result (*event_destroy)(EventHandle event);                                                   // cuEventDestroy_v2
  // Signature fixed by cuLaunchKernel.
  Result (*launch)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** params,
                   void** extra);  // cuLaunchKernel
  // Extents innermost first, strides in bytes of all dims but the innermost.
  // Signature fixed by cuTensorMapEncodeTiled.
  Result (*tensor_map_encode)(void* map, int type, uint32_t rank, void* address, const uint64_t* shape,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                              int interleave, int swizzle, int promotion, int fill);
  // Extents as above; corners and places of windows in the dims between the first and the last, innermost first.
  // Signature fixed by cuTensorMapEncodeIm2col.
  Result (*window_map_encode)(void* map, int type, uint32_t rank, void* address, const uint64_t* shape,
                              const uint64_t* strides, const int* first_corner, const int* last_corner,
                              uint32_t channels, uint32_t pixels, const uint32_t* element_strides, int interleave,
                              int swizzle, int promotion, int fill);
  Result (*graph_create)(GraphHandle* graph, unsigned flags);  // cuGraphCreate
  Result (*graph_add_kernel)(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* after, size_t after_count,
                             const KernelNodeParams* params);  // cuGraphAddKernelNode_v2
  Result (*graph_add_memset)(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* after, size_t after_count,
                             const MemsetNodeParams* params, ContextHandle context);  // cuGraphAddMemsetNode
  Result (*graph_add_edges)(GraphHandle graph, const GraphNodeHandle* from, const GraphNodeHandle* to,
                            const EdgeData* edges, size_t count);  // cuGraphAddDependencies_v2
  Result (*graph_instantiate)(GraphExecHandle* exec, GraphHandle graph,
                              unsigned long long flags);  // cuGraphInstantiateWithFlags
  Result (*graph_set_kernel)(GraphExecHandle exec, GraphNodeHandle node,
                             const KernelNodeParams* params);      // cuGraphExecKernelNodeSetParams_v2
  Result (*capture_begin)(StreamHandle stream, int mode);          // cuStreamBeginCapture_v2
  Result (*capture_end)(StreamHandle stream, GraphHandle* graph);  // cuStreamEndCapture
  Result (*graph_add_child)(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* after, size_t after_count,
                            GraphHandle child);  // cuGraphAddChildGraphNode
  Result (*graph_set_child)(GraphExecHandle exec, GraphNodeHandle node,
                            GraphHandle child);                       // cuGraphExecChildGraphNodeSetParams
  Result (*graph_launch)(GraphExecHandle exec, StreamHandle stream);  // cuGraphLaunch
  Result (*graph_exec_destroy)(GraphExecHandle exec);                 // cuGraphExecDestroy
  Result (*graph_destroy)(GraphHandle graph);                         // cuGraphDestroy

  const struct Cublaslt& (*open_cublaslt)();  // cublaslt.h
  const struct Cudnn& (*open_cudnn)();        // cudnn.h

  /// Throws Error for a result that is not success: kOutOfMemory, kIncompatible (the device cannot run the code), else
  /// kDevice, with `doing` and the driver's own text.
  void check(Result result, const char* doing) const;
};

/// The entry points of an open driver library. Throws Error(kDevice) naming the first one that is missing: an old
/// driver.
Driver resolve_driver(void* library);

/// The driver of this machine, opened at the first call. Throws Error(kDevice) without one.
const Driver& open_driver();

}  // namespace tw::runtime::cuda
