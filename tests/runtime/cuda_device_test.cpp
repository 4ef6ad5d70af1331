// The CUDA device against a driver made for this test: "device memory" is host memory and two "kernels" are functions.
// It checks what the runtime tells the driver; whether a real GPU agrees is for the tests that need one.
#ifdef TW_RUNTIME_CUDA
#include "runtime/device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/device/cuda/gpu.h"
#include "runtime/format/error.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using format::DataType;
using format::Error;
using format::ErrorCode;
using format::Place;
namespace cuda = runtime::cuda;

/// What the driver was asked for; the driver's functions have no state argument, so it is global.
struct FakeGpu {
  std::set<void*> memory;
  int contexts_pushed = 0, contexts_retained = 0, modules = 0, streams = 0, events = 0, launches = 0, copies = 0;
  int max_shared = 0;
  size_t memory_limit = 1 << 20;
  unsigned grid[3] = {}, block[3] = {}, shared = 0;
};
FakeGpu fake;

/// Parameters of both kernels. "scale": out[i] = in[i] * *factor; "fail": stores 1 into the error word at `in`.
struct Params {
  float* in;
  const float* factor;
  float* out;
  int64_t n;
};

char scale_function, fail_function;

// Signature fixed by cuLaunchKernel.
cuda::Result fake_launch(cuda::FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared, cuda::StreamHandle, void** params, void** extra) {
  if (params != nullptr || reinterpret_cast<uintptr_t>(extra[0]) != 1 || reinterpret_cast<uintptr_t>(extra[2]) != 2 ||
      extra[4] != nullptr || *static_cast<size_t*>(extra[3]) != sizeof(Params)) {
    return 1;
  }
  Params p;
  std::memcpy(&p, extra[1], sizeof(p));
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  std::copy_n(grid, 3, fake.grid);
  std::copy_n(block, 3, fake.block);
  fake.shared = shared;
  ++fake.launches;
  if (reinterpret_cast<char*>(function) == &fail_function) {
    *reinterpret_cast<int32_t*>(p.in) = 1;
    return 0;
  }
  for (int64_t i = 0; i < p.n; ++i) p.out[i] = p.in[i] * *p.factor;
  return 0;
}

cuda::Result fake_alloc(cuda::DevicePtr* pointer, size_t bytes) {
  if (bytes > fake.memory_limit) return cuda::kErrorOutOfMemory;
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xcd, bytes);
  fake.memory.insert(memory);
  *pointer = reinterpret_cast<cuda::DevicePtr>(memory);
  return 0;
}

cuda::Result fake_free(cuda::DevicePtr pointer) {
  void* memory = reinterpret_cast<void*>(pointer);
  if (fake.memory.erase(memory) == 0) return 1;
  std::free(memory);
  return 0;
}

cuda::Result fake_function(cuda::FunctionHandle* function, cuda::ModuleHandle, const char* name) {
  char* found = std::string_view(name) == "scale"  ? &scale_function
                : std::string_view(name) == "fail" ? &fail_function
                                                   : nullptr;
  *function = reinterpret_cast<cuda::FunctionHandle>(found);
  return found == nullptr ? 500 : 0;
}

cuda::Driver fake_driver() {
  cuda::Driver d{};
  d.get_error_string = [](cuda::Result, const char** text) { return *text = "made-up text", 0; };
  d.device_get_count = [](int* count) { return *count = 1, 0; };
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
    *module = reinterpret_cast<cuda::ModuleHandle>(&fake.modules);
    return ++fake.modules, std::memcmp(image, "cubin", 5) == 0 ? 0 : cuda::kErrorNoBinaryForGpu;
  };
  d.module_unload = [](cuda::ModuleHandle) { return --fake.modules, 0; };
  d.module_get_function = fake_function;
  d.function_set_attribute = [](cuda::FunctionHandle, int, int value) { return fake.max_shared = value, 0; };
  d.mem_alloc = fake_alloc;
  d.mem_free = fake_free;
  d.memset = [](cuda::DevicePtr p, unsigned char v, size_t n) {
    return std::memset(reinterpret_cast<void*>(p), v, n), 0;
  };
  d.copy_to_device = [](cuda::DevicePtr to, const void* from, size_t bytes, cuda::StreamHandle) {
    return ++fake.copies, std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
  };
  d.copy_to_host = [](void* to, cuda::DevicePtr from, size_t bytes, cuda::StreamHandle) {
    return ++fake.copies, std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0;
  };
  d.stream_create = [](cuda::StreamHandle* stream, unsigned) { return *stream = nullptr, ++fake.streams, 0; };
  d.stream_synchronize = [](cuda::StreamHandle) { return 0; };
  d.stream_destroy = [](cuda::StreamHandle) { return --fake.streams, 0; };
  d.event_create = [](cuda::EventHandle* event, unsigned) { return *event = nullptr, ++fake.events, 0; };
  d.event_record = [](cuda::EventHandle, cuda::StreamHandle) { return 0; };
  d.event_elapsed_ms = [](float* ms, cuda::EventHandle, cuda::EventHandle) { return *ms = 0.25f, 0; };
  d.event_destroy = [](cuda::EventHandle) { return --fake.events, 0; };
  d.launch = fake_launch;
  return d;
}

/// y = (x * 3) * 5, the factors being weights and the intermediate an arena buffer at offset 256.
test::TestArtefact scale_model(int64_t n) {
  test::TestArtefact artefact;
  artefact.code.assign({'c', 'u', 'b', 'i', 'n'});
  artefact.weights.resize(8);
  const float factors[] = {3.0f, 5.0f};
  std::memcpy(artefact.weights.data(), factors, 8);
  format::Manifest& manifest = artefact.manifest;
  manifest.targets = {{format::TargetKind::kCuda, "sm_90a", {}}};
  manifest.kernels = {{"scale", "cubin.0", 0, 5}, {"fail", "cubin.0", 0, 5}};
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", DataType::kF32, {n}}};
  entry.outputs = {{"y", DataType::kF32, {n}}};
  entry.arena_bytes = 256 + 4 * n;
  entry.buffers = {{Place::kInput, 0, 0, 4 * n, "x"},
                   {Place::kArena, 0, 256, 4 * n, "scaled"},
                   {Place::kOutput, 0, 0, 4 * n, "y"},
                   {Place::kWeights, 0, 0, 8, "factors"},
                   {Place::kError, 0, 0, 4, ""}};
  Params params{nullptr, nullptr, nullptr, n};
  std::vector<uint8_t> block(sizeof(params));
  std::memcpy(block.data(), &params, sizeof(params));
  entry.cuda_steps = {{0, {4, 3, 2}, {64, 2, 1}, 0, block, {{0, 0, 0}, {8, 3, 0}, {16, 1, 0}}, "first"},
                      {0, {7, 1, 1}, {32, 1, 1}, 100'000, block, {{0, 1, 0}, {8, 3, 4}, {16, 2, 0}}, "second"}};
  manifest.entries = {entry};
  return artefact;
}

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override { fake = FakeGpu(); }
  void TearDown() override {
    EXPECT_TRUE(fake.memory.empty());
    EXPECT_EQ(fake.contexts_pushed, 0);
    EXPECT_EQ(fake.contexts_retained, 0);
    EXPECT_EQ(fake.modules, 0);
    EXPECT_EQ(fake.streams, 0);
    EXPECT_EQ(fake.events, 0);
  }
  std::unique_ptr<runtime::DeviceModel> load(const test::TestArtefact& made, int device = 0) {
    file_ = format::serialize_artefact(made.manifest, {{"cubin.0", made.code}, {"weights", made.weights}});
    artefact_ = format::Artefact::parse(file_);
    runtime::Options options;
    options.device = device;
    return cuda::load_model(artefact_, options, driver_);
  }
  ErrorCode refusal(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      message_ = error.what();
      return error.code();
    }
    return ErrorCode{};
  }
  cuda::Driver driver_ = fake_driver();
  std::vector<uint8_t> file_;
  format::Artefact artefact_;
  std::string message_;
};

TEST_F(CudaDevice, HostTensorsAreCopiedAndParametersRelocated) {
  const auto model = load(scale_model(7));
  EXPECT_EQ(fake.max_shared, 100'000);
  const auto context = model->create_context({});
  test::Vector<float> x(7), y(7);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 7; ++i) x.data[i] = static_cast<float>(i) + static_cast<float>(round);
    const DLTensor input = x.view(), output = y.view();
    context->run(0, &input, &output);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(y.data[i], x.data[i] * 15.0f);
  }
  EXPECT_EQ(fake.launches, 6);
  EXPECT_EQ(fake.grid[0], 7u);
  EXPECT_EQ(fake.block[0], 32u);
  EXPECT_EQ(fake.shared, 100'000u);
  std::vector<float> middle(7);
  context->read_buffer(0, 1, middle.data());
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(middle[i], x.data[i] * 3.0f);
  EXPECT_TRUE(context->step_times().empty());
}

TEST_F(CudaDevice, DeviceTensorsAreUsedInPlace) {
  const auto model = load(scale_model(5));
  const auto context = model->create_context({});
  test::Vector<float> x(5, 2.0f), y(6);
  DLTensor input = x.view(), output = y.view();
  input.device = output.device = {kDLCUDA, 0};
  output.byte_offset = 4;
  const int copies = fake.copies;
  context->run(0, &input, &output);
  EXPECT_EQ(fake.copies, copies);
  EXPECT_EQ(y.data, (std::vector<float>{0, 30, 30, 30, 30, 30}));
  EXPECT_TRUE(model->accepts({kDLCUDA, 0}));
  EXPECT_FALSE(model->accepts({kDLCUDA, 1}));
  EXPECT_TRUE(model->accepts({kDLCPU, 0}));
}

TEST_F(CudaDevice, StepsAreTimed) {
  const auto model = load(scale_model(5));
  runtime::Options options;
  options.profile = 1;
  const auto context = model->create_context(options);
  test::Vector<float> x(5), y(5);
  const DLTensor input = x.view(), output = y.view();
  context->run(0, &input, &output);
  ASSERT_EQ(context->step_times().size(), 2u);
  EXPECT_EQ(context->step_times()[0], 250'000u);
}

TEST_F(CudaDevice, TheErrorWordIsAnErrorAndIsCleared) {
  test::TestArtefact made = scale_model(5);
  format::CudaStep failing = made.manifest.entries[0].cuda_steps[0];
  failing.kernel = 1;
  failing.relocations = {{0, 4, 0}};
  made.manifest.entries[0].cuda_steps.push_back(failing);
  const auto model = load(made);
  const auto context = model->create_context({});
  test::Vector<float> x(5), y(5);
  const DLTensor input = x.view(), output = y.view();
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kInputValue);
  EXPECT_NE(message_.find("index is out of range"), std::string::npos);
}

TEST_F(CudaDevice, WrongDevicesAndModelsAreRefused) {
  EXPECT_EQ(refusal([&] { load(scale_model(5), 1); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("no GPU number 1"), std::string::npos);
  test::TestArtefact made = scale_model(5);
  made.manifest.targets[0].arch = "sm_80";
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kIncompatible);
  EXPECT_NE(message_.find("sm_90"), std::string::npos);
  made = scale_model(5);
  made.code[0] = 'x';
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kIncompatible);
  fake.modules = 0;  // the driver above counts the load that it refused
  made = scale_model(5);
  made.manifest.kernels[0].name = "missing";
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("'missing'"), std::string::npos);
}

TEST_F(CudaDevice, OutOfMemoryIsItsOwnError) {
  const auto model = load(scale_model(5));
  fake.memory_limit = 100;
  EXPECT_EQ(refusal([&] { model->create_context({}); }), ErrorCode::kOutOfMemory);
  fake.memory_limit = 4;
  EXPECT_EQ(refusal([&] { load(scale_model(6)); }), ErrorCode::kOutOfMemory);
}

TEST_F(CudaDevice, BinaryCompatibility) {
  EXPECT_TRUE(cuda::runs_on("sm_80", 8, 0));
  EXPECT_TRUE(cuda::runs_on("sm_80", 8, 6));
  EXPECT_FALSE(cuda::runs_on("sm_86", 8, 0));
  EXPECT_FALSE(cuda::runs_on("sm_80", 9, 0));
  EXPECT_TRUE(cuda::runs_on("sm_90a", 9, 0));
  EXPECT_TRUE(cuda::runs_on("sm_100a", 10, 0));
  EXPECT_FALSE(cuda::runs_on("sm_100a", 10, 3));
  for (const char* wrong : {"", "sm_", "sm_90b", "sm_x", "compute_90", "x86-64"})
    EXPECT_FALSE(cuda::runs_on(wrong, 9, 0)) << wrong;
}

}  // namespace
}  // namespace tw
#endif
