#ifdef TW_RUNTIME_CUDA
#include "tests/runtime/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/cudnn.h"
#include "runtime/format/error.h"
#include "runtime/format/manifest.h"

namespace tw::test {

FakeGpu fake;

namespace {

namespace cuda = runtime::cuda;

/// A launch with its parameters taken out of the caller's memory, as the driver's graphs keep it.
struct Node {
  cuda::KernelNodeParams launch;
  std::vector<uint8_t> params;
  std::vector<std::function<void()>> calls;  // of a child graph
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<cuda::MemsetNodeParams> clearings;  // nothing runs before them
};
constexpr size_t kFirstClearing = 1000;  // of their handles

Graph* capturing = nullptr;  // takes down what libraries put on a stream

constexpr std::string_view kKernels[] = {"scale", "fail", "copy", "negate", "outside", "fault"};
constexpr cuda::Result kIllegalAddress = 700;

std::string_view name_of(cuda::FunctionHandle function) { return *reinterpret_cast<const std::string_view*>(function); }
bool is_pointwise(std::string_view name) { return name != "scale" && name != "fail"; }

cuda::Result read_node(const cuda::KernelNodeParams& given, Node& node) {
  if (given.params == nullptr || given.kernel != nullptr || given.extra != nullptr) return 1;
  node.launch = given;
  node.launch.params = nullptr;
  node.params.resize(is_pointwise(name_of(given.function)) ? sizeof(FakePointers) : sizeof(FakeParams));
  for (size_t at = 0; at < node.params.size(); at += 8) std::memcpy(&node.params[at], given.params[at / 8], 8);
  return 0;
}

cuda::Result run_pointwise(std::string_view name, const FakePointers& p, int64_t count) {
  if (name == "fault") return fake.fault = kIllegalAddress;
  fake.copied.push_back(p.in);
  for (int64_t i = 0; i < count + (name == "outside" ? 1 : 0); ++i) p.out[i] = name == "negate" ? -p.in[i] : p.in[i];
  return 0;
}

cuda::Result run_node(const Node& node) {
  for (const auto& call : node.calls) call();
  if (!node.calls.empty()) return 0;
  const cuda::KernelNodeParams& l = node.launch;
  const unsigned grid[] = {l.grid_x, l.grid_y, l.grid_z}, block[] = {l.block_x, l.block_y, l.block_z};
  std::copy_n(grid, 3, fake.grid);
  std::copy_n(block, 3, fake.block);
  fake.shared = l.shared_bytes;
  ++fake.kernels_run;
  if (is_pointwise(name_of(l.function))) {
    FakePointers pointers{};
    std::memcpy(&pointers, node.params.data(), sizeof(pointers));
    run_pointwise(name_of(l.function), pointers, l.grid_x);
    return 0;  // faults come to light later
  }
  FakeParams p{};
  std::memcpy(&p, node.params.data(), sizeof(p));
  if (name_of(l.function) == "fail") {
    *reinterpret_cast<int32_t*>(p.in) = 1;
    return 0;
  }
  for (int64_t i = 0; i < p.n; ++i) p.out[i] = p.in[i] * *p.factor;
  return 0;
}

// Signature fixed by cuLaunchKernel.
cuda::Result launch(cuda::FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, cuda::StreamHandle, void** params, void** extra) {
  Node node{};
  ++fake.launches;
  fake.calls += 'k';
  const cuda::Result result =
      read_node({function, gx, gy, gz, bx, by, bz, shared, params, extra, nullptr, nullptr}, node);
  return result != 0 ? result : run_node(node);
}

cuda::Result alloc(cuda::DevicePtr* pointer, size_t bytes) {
  if (bytes > fake.memory_limit) return cuda::kErrorOutOfMemory;
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xcd, bytes);
  fake.memory.insert(memory);
  *pointer = reinterpret_cast<cuda::DevicePtr>(memory);
  return 0;
}

cuda::Result release(cuda::DevicePtr pointer) {
  void* memory = reinterpret_cast<void*>(pointer);
  if (fake.memory.erase(memory) == 0) return 1;
  std::free(memory);
  return 0;
}

cuda::Result get_function(cuda::FunctionHandle* function, cuda::ModuleHandle, const char* name) {
  const auto* found = std::ranges::find(kKernels, std::string_view(name));
  if (found == std::end(kKernels)) return 500;
  *function = reinterpret_cast<cuda::FunctionHandle>(const_cast<std::string_view*>(found));
  return 0;
}

Graph* graph_of(cuda::GraphHandle handle) { return reinterpret_cast<Graph*>(handle); }
Graph* graph_of(cuda::GraphExecHandle handle) { return reinterpret_cast<Graph*>(handle); }

/// A node's handle is its number from 1.
cuda::Result add_kernel(cuda::GraphNodeHandle* node, cuda::GraphHandle graph, const cuda::GraphNodeHandle* after,
                        size_t after_count, const cuda::KernelNodeParams* params) {
  std::vector<Node>& nodes = graph_of(graph)->nodes;
  if (after != nullptr || after_count != 0) return 1;
  Node made{};
  if (const cuda::Result result = read_node(*params, made); result != 0) return result;
  nodes.push_back(made);
  *node = reinterpret_cast<cuda::GraphNodeHandle>(nodes.size());
  return 0;
}

/// All that was captured, as one node.
Node child_node(cuda::GraphHandle child) {
  Node made{};
  for (const Node& node : graph_of(child)->nodes)
    made.calls.insert(made.calls.end(), node.calls.begin(), node.calls.end());
  return made;
}

cuda::Result add_child(cuda::GraphNodeHandle* node, cuda::GraphHandle graph, const cuda::GraphNodeHandle* after,
                       size_t after_count, cuda::GraphHandle child) {
  if (after != nullptr || after_count != 0) return 1;
  std::vector<Node>& nodes = graph_of(graph)->nodes;
  nodes.push_back(child_node(child));
  *node = reinterpret_cast<cuda::GraphNodeHandle>(nodes.size());
  return 0;
}

cuda::Result set_child(cuda::GraphExecHandle exec, cuda::GraphNodeHandle node, cuda::GraphHandle child) {
  if (fake.update_result != 0) return fake.update_result;
  ++fake.node_updates;
  graph_of(exec)->nodes.at(reinterpret_cast<size_t>(node) - 1) = child_node(child);
  return 0;
}

cuda::Result add_memset(cuda::GraphNodeHandle* node, cuda::GraphHandle graph, const cuda::GraphNodeHandle* after,
                        size_t after_count, const cuda::MemsetNodeParams* params, cuda::ContextHandle context) {
  if (after != nullptr || after_count != 0 || params->height != 1 || context == nullptr) return 1;
  std::vector<cuda::MemsetNodeParams>& all = graph_of(graph)->clearings;
  *node = reinterpret_cast<cuda::GraphNodeHandle>(kFirstClearing + all.size());
  all.push_back(*params);
  return 0;
}

/// Nodes wait for earlier ones, and one for each clearing of memory.
cuda::Result add_edges(cuda::GraphHandle, const cuda::GraphNodeHandle* from, const cuda::GraphNodeHandle* to,
                       const cuda::EdgeData* edges, size_t count) {
  if (reinterpret_cast<size_t>(*from) >= kFirstClearing) {
    fake.cleared_before.push_back(reinterpret_cast<size_t>(*to) - 1);
    return edges->type == 0 && count == 1 ? 0 : 1;
  }
  if (count != 1 || reinterpret_cast<size_t>(*from) >= reinterpret_cast<size_t>(*to)) return 1;
  ++fake.edges;
  fake.overlapping_edges += edges->type == cuda::kOverlapping.type && edges->from_port == cuda::kOverlapping.from_port;
  return 0;
}

// Signature fixed by cuTensorMapEncodeTiled.
cuda::Result encode(void* map, int type, uint32_t rank, void* address, const uint64_t* shape, const uint64_t* strides,
                    const uint32_t* box, const uint32_t*, int, int swizzle, int, int) {
  fake.maps.push_back(
      {type, swizzle, address, {shape, shape + rank}, {strides, strides + rank - 1}, {box, box + rank}, {}, {}, {}});
  std::memset(map, 0, 128);
  std::memcpy(map, &address, sizeof(address));
  return 0;
}

// Signature fixed by cuTensorMapEncodeIm2col.
cuda::Result encode_windows(void* map, int type, uint32_t rank, void* address, const uint64_t* shape,
                            const uint64_t* strides, const int* first, const int* last, uint32_t channels,
                            uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int promotion,
                            int fill) {
  const uint32_t box[] = {channels, pixels, 1, 1, 1};
  encode(map, type, rank, address, shape, strides, box, steps, interleave, swizzle, promotion, fill);
  FakeMap& made = fake.maps.back();
  made.box.resize(2);
  made.steps.assign(steps, steps + rank);
  made.first.assign(first, first + rank - 2);
  made.last.assign(last, last + rank - 2);
  return 0;
}

cuda::Result instantiate(cuda::GraphExecHandle* exec, cuda::GraphHandle graph, unsigned long long) {
  if (fake.instantiate_result != 0) return fake.instantiate_result;
  ++fake.instantiations;
  ++fake.executable_graphs;
  *exec = reinterpret_cast<cuda::GraphExecHandle>(new Graph(*graph_of(graph)));
  return 0;
}

cuda::Result set_kernel(cuda::GraphExecHandle exec, cuda::GraphNodeHandle node, const cuda::KernelNodeParams* params) {
  if (fake.update_result != 0) return fake.update_result;
  ++fake.node_updates;
  return read_node(*params, graph_of(exec)->nodes.at(reinterpret_cast<size_t>(node) - 1));
}

cuda::Result launch_graph(cuda::GraphExecHandle exec, cuda::StreamHandle stream) {
  if (fake.launch_result != 0) return fake.launch_result;
  fake.graph_streams.push_back(stream);
  ++fake.graph_launches;
  fake.calls += 'g';
  for (const cuda::MemsetNodeParams& p : graph_of(exec)->clearings)
    std::memset(reinterpret_cast<void*>(p.to), static_cast<int>(p.value), p.width * p.element_bytes);
  for (const Node& node : graph_of(exec)->nodes) run_node(node);
  return 0;
}

void add_device_functions(cuda::Driver& d) {
  d.init = [](unsigned) { return fake.init_result; };
  d.get_error_string = [](cuda::Result, const char** text) { return *text = "made-up text", 0; };
  d.device_get_count = [](int* count) { return *count = fake.devices, 0; };
  d.device_get = [](cuda::Device* device, int ordinal) { return *device = ordinal, 0; };
  d.device_get_name = [](char* name, int, cuda::Device) { return std::strcpy(name, "Fake 9"), 0; };
  d.device_get_attribute = [](int* value, int attribute, cuda::Device) {
    return *value = attribute == cuda::kAttributeMajor ? 9 : 0, 0;
  };
  d.primary_context_retain = [](cuda::ContextHandle* context, cuda::Device) {
    *context = reinterpret_cast<cuda::ContextHandle>(&fake);
    return ++fake.contexts_retained, 0;
  };
  d.primary_context_release = [](cuda::Device) { return --fake.contexts_retained, 0; };
  d.context_push = [](cuda::ContextHandle) { return ++fake.contexts_pushed, 0; };
  d.context_pop = [](cuda::ContextHandle*) { return --fake.contexts_pushed, 0; };
  d.module_load_data = [](cuda::ModuleHandle* module, const void* image) {
    // Byte by byte: the driver is not told how long an image is, and a wrong one may be shorter.
    const auto* bytes = static_cast<const char*>(image);
    for (const char c : std::string_view("cubin"))
      if (*bytes++ != c) return cuda::kErrorNoBinaryForGpu;
    *module = reinterpret_cast<cuda::ModuleHandle>(&fake.modules);
    return ++fake.modules, 0;
  };
  d.module_unload = [](cuda::ModuleHandle) { return --fake.modules, 0; };
  d.module_get_function = get_function;
  d.function_set_attribute = [](cuda::FunctionHandle, int, int value) {
    return fake.max_shared = value, value > fake.shared_limit ? 1 : 0;
  };
  d.param_info = [](cuda::FunctionHandle function, size_t index, size_t* offset, size_t* bytes) {
    const size_t words = (is_pointwise(name_of(function)) ? sizeof(FakePointers) : sizeof(FakeParams)) / 8;
    const bool is_map = fake.takes_map && index == words;
    *offset = index * 8, *bytes = is_map ? format::TensorMap::kBytes : 8;
    const bool has = index < words || is_map;
    return fake.unknown_params += has ? 0 : 1, has ? 0 : 1;
  };
}

void add_memory_functions(cuda::Driver& d) {
  d.mem_alloc = alloc;
  d.mem_free = release;
  d.mem_get_info = [](size_t* free, size_t* total) { return *free = fake.memory_limit, *total = 1 << 20, fake.fault; };
  d.memset = [](cuda::DevicePtr p, unsigned char v, size_t n) {
    return std::memset(reinterpret_cast<void*>(p), v, n), 0;
  };
  d.copy_to_device = [](cuda::DevicePtr to, const void* from, size_t bytes, cuda::StreamHandle) {
    fake.calls += 'i';
    return ++fake.copies, std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
  };
  d.copy_on_device = [](cuda::DevicePtr to, cuda::DevicePtr from, size_t bytes, cuda::StreamHandle) {
    fake.calls += 'd';
    if (fake.copy_result != 0) return fake.copy_result;
    return ++fake.copies, std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), 0;
  };
  d.copy_to_host = [](void* to, cuda::DevicePtr from, size_t bytes, cuda::StreamHandle) {
    fake.calls += 'o';
    return ++fake.copies, std::memcpy(to, reinterpret_cast<void*>(from), bytes), fake.fault;
  };
}

/// The time between two events is a quarter of a millisecond for each place between their numbers.
void add_stream_functions(cuda::Driver& d) {
  d.stream_create = [](cuda::StreamHandle* stream, unsigned) {
    return *stream = reinterpret_cast<cuda::StreamHandle>(&fake), ++fake.streams, 0;
  };
  d.launch_host = [](cuda::StreamHandle, void (*function)(void*), void* user) {
    return fake.host_work.emplace_back(function, user), fake.calls += 'h', 0;
  };
  d.stream_synchronize = [](cuda::StreamHandle) {
    for (const auto& [function, user] : std::exchange(fake.host_work, {})) function(user);
    return ++fake.waits, fake.fault;
  };
  d.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle, unsigned flags) {
    return fake.calls += 'w', fake.following.push_back(stream), static_cast<int>(flags);
  };
  d.stream_destroy = [](cuda::StreamHandle) { return --fake.streams, 0; };
  d.event_create = [](cuda::EventHandle* event, unsigned) {
    return *event = reinterpret_cast<cuda::EventHandle>(static_cast<intptr_t>(++fake.events)), 0;
  };
  d.event_record = [](cuda::EventHandle, cuda::StreamHandle) { return fake.calls += 'e', 0; };
  d.event_elapsed_ms = [](float* ms, cuda::EventHandle start, cuda::EventHandle end) {
    *ms = 0.25f * static_cast<float>(reinterpret_cast<intptr_t>(end) - reinterpret_cast<intptr_t>(start));
    return 0;
  };
  d.event_destroy = [](cuda::EventHandle) { return --fake.events, 0; };
  d.launch = launch;
}

void add_graph_functions(cuda::Driver& d) {
  d.graph_create = [](cuda::GraphHandle* graph, unsigned) {
    return *graph = reinterpret_cast<cuda::GraphHandle>(new Graph), ++fake.graphs, 0;
  };
  d.graph_add_kernel = add_kernel;
  d.graph_add_memset = add_memset;
  d.graph_add_child = add_child;
  d.graph_set_child = set_child;
  d.capture_begin = [](cuda::StreamHandle, int mode) {
    if (capturing != nullptr || mode != cuda::kCaptureRelaxed) return 1;
    return capturing = new Graph, ++fake.graphs, 0;
  };
  d.capture_end = [](cuda::StreamHandle, cuda::GraphHandle* graph) {
    return *graph = reinterpret_cast<cuda::GraphHandle>(std::exchange(capturing, nullptr)), 0;
  };
  d.graph_instantiate = instantiate;
  d.tensor_map_encode = encode;
  d.window_map_encode = encode_windows;
  d.graph_add_edges = add_edges;
  d.graph_set_kernel = set_kernel;
  d.graph_launch = launch_graph;
  d.graph_exec_destroy = [](cuda::GraphExecHandle exec) {
    delete graph_of(exec);
    return --fake.executable_graphs, 0;
  };
  d.graph_destroy = [](cuda::GraphHandle graph) {
    delete graph_of(graph);
    return --fake.graphs, 0;
  };
}

}  // namespace

void put_on_stream(const std::function<void()>& call) {
  fake.calls += capturing == nullptr ? 'l' : 'c';
  if (capturing == nullptr) return call();
  Node node{};
  node.calls = {call};
  capturing->nodes.push_back(node);
}

cuda::Driver fake_driver() {
  cuda::Driver d{};
  add_device_functions(d);
  add_memory_functions(d);
  add_stream_functions(d);
  add_graph_functions(d);
  d.open_cublaslt = []() -> const cuda::Cublaslt& {
    throw format::Error(format::ErrorCode::kDevice, "no cuBLASLt in this test");
  };
  d.open_cudnn = []() -> const cuda::Cudnn& {
    throw format::Error(format::ErrorCode::kDevice, "no cuDNN in this test");
  };
  return d;
}

}  // namespace tw::test
#endif
