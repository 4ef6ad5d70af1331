// The CUDA device against a driver made for this test (fake_cuda.h). It checks what the runtime tells the driver;
// Size: one fixture and one fake driver for all that a device is asked for.
// whether a real GPU agrees is for the tests that need one.
#ifdef TW_RUNTIME_CUDA
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "runtime/device/cuda/gpu.h"
#include "runtime/format/cuda_step.h"
#include "runtime/format/error.h"
#include "runtime/state.h"
#include "tests/runtime/cuda_fixture.h"
#include "tests/runtime/fake_cublaslt.h"
#include "tests/runtime/fake_cudnn.h"
#include "tests/runtime/fake_profiler.h"

namespace tw {
namespace {

using format::DataType;
using format::Error;
using format::ErrorCode;
using format::Place;
using test::add_map_argument;
using test::CudaDevice;
using test::failing_model;
using test::fake;
using test::on_gpu;
using test::own_context;
using test::scale_model;
namespace cuda = runtime::cuda;

/// A buffer behind all others of the arena; returns its number.
int64_t add_arena(format::Entry& entry, int64_t bytes) {
  const int64_t offset = (entry.arena_bytes + 15) / 16 * 16;
  entry.buffers.push_back({Place::kArena, 0, offset, bytes, "added"});
  entry.arena_bytes = offset + bytes;
  return std::ssize(entry.buffers) - 1;
}

/// total becomes 3 total, a state behind another one, and y = 5 total.
test::TestArtefact state_model(int64_t n) {
  test::TestArtefact made = scale_model(n);
  made.manifest.states = {{{"other", DataType::kF32, {2}}, "other.next", 0},
                          {{"total", DataType::kF32, {n}}, "total.next", 256}};
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers[1] = {Place::kNextState, 1, 0, 4 * n, "total.next"};
  entry.cuda_steps[0].relocations[0].buffer = 1;
  return made;
}

TEST_F(CudaDevice, StateStaysThereAndIsShared) {
  const auto model = load(state_model(5));
  const auto state = model->create_state({});
  const DLDevice host = {kDLCPU, 0};
  std::vector<float> values = {1, 2, 3, 4, 5};
  state->clear();
  state->set({256, 20}, values.data(), host);
  const auto one = model->create_context({}, *state), other = model->create_context({}, *state);
  test::Vector<float> x(5), y(5);
  const DLTensor input = x.view(), output = y.view();
  const int copies = fake.copies;
  one->run(0, &input, &output);
  EXPECT_EQ(y.data, (std::vector<float>{15, 30, 45, 60, 75}));
  EXPECT_EQ(fake.copies, copies + 2) << "x and y";
  other->run(0, &input, &output);
  EXPECT_EQ(y.data, (std::vector<float>{45, 90, 135, 180, 225}));
  state->get({256, 20}, values.data(), host);
  EXPECT_EQ(values, (std::vector<float>{9, 18, 27, 36, 45}));
  std::vector<float> beside(2, -1);
  state->get({0, 8}, beside.data(), host);
  EXPECT_EQ(beside, (std::vector<float>{0, 0}));
  // To and from the GPU's own memory.
  state->set({256, 8}, beside.data(), {kDLCUDA, 0});
  state->get({256, 8}, values.data(), {kDLCUDA, 0});
  EXPECT_EQ(values[0], 0);
  // Tensors of the GPU and the host's memory, as for states that are stored otherwise.
  std::vector<float> from = {7, 8}, to(2);
  state->from_host(to.data(), {kDLCUDA, 0}, from.data(), 8);
  EXPECT_EQ(to, from);
  state->to_host(beside.data(), to.data(), {kDLCUDA, 0}, 8);
  state->to_host(values.data(), to.data(), host, 8);
  EXPECT_EQ(beside, from);
  EXPECT_EQ(values[1], 8);
}

TEST_F(CudaDevice, AStateOfAnotherOrderIsRowsInItsMemoryToo) {
  test::TestArtefact made = state_model(6);
  made.manifest.states[1].tensor.shape = {2, 3};
  made.manifest.states[1].order = {1, 0};
  const auto model = load(made);
  runtime::State state(nullptr, artefact_, *model, {});
  int64_t shape[] = {2, 3};
  for (const DLDevice device : {DLDevice{kDLCPU, 0}, DLDevice{kDLCUDA, 0}}) {
    std::vector<float> rows = {1, 2, 3, 4, 5, 6}, read(6), stored(6);
    const auto tensor = [&](std::vector<float>& values) {
      return DLTensor{values.data(), device, 2, test::dlpack_type<float>(), shape, nullptr, 0};
    };
    state.set(1, tensor(rows));
    state.on_device().get({256, 24}, stored.data(), {kDLCPU, 0});
    EXPECT_EQ(stored, (std::vector<float>{1, 4, 2, 5, 3, 6}));
    state.get(1, tensor(read));
    EXPECT_EQ(read, rows);
    state.reset();
  }
}

// Of x and y [2, 4] an entry serves [2, 3]: tensors of the host and of the GPU.
TEST_F(CudaDevice, SmallerTensorsAreTheFirstRowsOfTheEntrysOwn) {
  test::TestArtefact made = scale_model(8);
  format::Entry& entry = made.manifest.entries[0];
  entry.inputs[0].shape = entry.outputs[0].shape = {2, 4};
  entry.extents = {{"n", 1, 4, {{0, 1, 1}}, {{0, 1, 1}}}};
  entry.buffers.push_back({Place::kExtent, 0, 0, 8, "n_length"});
  const int64_t seen_at = add_arena(entry, 8);
  made.manifest.kernels.push_back({"copy", "cubin.0", 0, 5});
  entry.cuda_steps.push_back(
      {2, {2, 1, 1}, {1, 1, 1}, 0, std::vector<uint8_t>(16), {0, 8}, {{0, 5, 0}, {8, seen_at, 0}}});
  entry.cuda_steps[2].after = {1};
  const auto model = load(made);
  const auto context = own_context(*model, {});
  for (const bool on_device : {false, true}) {
    test::Vector<float> x(6), y(7);
    for (size_t i = 0; i < 6; ++i) x.data[i] = static_cast<float>(i);
    y.data[6] = -1;
    const DLTensor input = on_device ? on_gpu(x) : x.view(), output = on_device ? on_gpu(y) : y.view();
    const int copies = fake.copies;
    context->set_extents({3});
    context->run(0, &input, &output);
    EXPECT_EQ(y.data, (std::vector<float>{0, 15, 30, 45, 60, 75, -1}));
    EXPECT_EQ(fake.copies, copies + 2 + 2 + 1 + 2) << "rows, what they lack, the extent, rows";
    int64_t seen = 0;
    context->read_buffer(0, static_cast<int>(seen_at), &seen);
    EXPECT_EQ(seen, 3);
  }
  test::Vector<float> x(8), y(8);
  const DLTensor input = on_gpu(x), output = on_gpu(y);
  const int copies = fake.copies;
  context->set_extents({4});
  context->run(0, &input, &output);
  EXPECT_EQ(fake.copies, copies + 1) << "the extent";
}

TEST_F(CudaDevice, HostTensorsAreCopiedAndParametersRelocated) {
  const auto model = load(scale_model(7));
  EXPECT_EQ(fake.max_shared, 100'000);
  const auto context = own_context(*model, {});
  test::Vector<float> x(7), y(7);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 7; ++i) x.data[i] = static_cast<float>(i) + static_cast<float>(round);
    const DLTensor input = x.view(), output = y.view();
    context->run(0, &input, &output);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(y.data[i], x.data[i] * 15.0f);
  }
  EXPECT_EQ(fake.kernels_run, 6);
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
  const auto context = own_context(*model, {});
  test::Vector<float> x(5, 2.0f), y(9);
  DLTensor input = on_gpu(x), output = on_gpu(y);
  output.byte_offset = 16;
  const int copies = fake.copies;
  context->run(0, &input, &output);
  EXPECT_EQ(fake.copies, copies);
  EXPECT_EQ(y.data, (std::vector<float>{0, 0, 0, 0, 30, 30, 30, 30, 30}));
  EXPECT_TRUE(model->accepts({kDLCUDA, 0}));
  EXPECT_FALSE(model->accepts({kDLCUDA, 1}));
  EXPECT_TRUE(model->accepts({kDLCPU, 0}));
}

// Kernels move whole vectors, which the driver refuses at other addresses.
TEST_F(CudaDevice, DeviceTensorsBetweenVectorsAreCopied) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(6, 2.0f), y(6);
  x.data[0] = 7;
  DLTensor input = on_gpu(x), output = on_gpu(y);
  input.byte_offset = output.byte_offset = 4;
  fake.calls.clear();
  context->run(0, &input, &output);
  EXPECT_EQ(std::ranges::count(fake.calls, 'd'), 2);
  EXPECT_EQ(y.data, (std::vector<float>{0, 30, 30, 30, 30, 30}));
}

TEST_F(CudaDevice, ARunIsOneLaunchOfAGraphMadeOnce) {
  const auto model = load(scale_model(7));
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.instantiations, 1);
  test::Vector<float> x(7, 2.0f), y(7);
  const DLTensor input = x.view(), output = y.view();
  test::ranges.clear();
  for (int round = 1; round <= 3; ++round) {
    context->run(0, &input, &output);
    EXPECT_EQ(fake.graph_launches, round);
    EXPECT_EQ(std::exchange(test::ranges, {}), (std::vector<std::string>{"only", "end"}));
  }
  EXPECT_EQ(fake.calls.substr(fake.calls.size() - 3), "igo");
  EXPECT_EQ(fake.instantiations, 1);
  EXPECT_EQ(fake.edges, 1);
  EXPECT_EQ(fake.overlapping_edges, 1) << "the second step waits for the first one itself";
  EXPECT_EQ(fake.node_updates, 0) << "host tensors lie at the same addresses in every run";
  EXPECT_EQ(fake.launches, 0);
}

TEST_F(CudaDevice, StepsThatWaitForNoneAreBranches) {
  test::TestArtefact made = scale_model(7);
  std::vector<format::CudaStep>& steps = made.manifest.entries[0].cuda_steps;
  format::Entry& entry = made.manifest.entries[0];
  const int64_t other = add_arena(entry, 4 * 7);
  steps.push_back(steps[0]);
  steps.push_back(steps[1]);
  steps[2].relocations[2].buffer = steps[3].relocations[0].buffer = other;
  steps[3].after = {1, 2};
  const auto model = load(made);
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.edges, 3);
  EXPECT_EQ(fake.overlapping_edges, 2) << "of the second step, and of the last one to that before it";
}

TEST_F(CudaDevice, StepsThatShareAStateAreNoBranches) {
  test::TestArtefact made = state_model(5);
  std::vector<format::CudaStep>& steps = made.manifest.entries[0].cuda_steps;
  steps.push_back(steps[1]);
  steps[2].relocations[2].buffer = add_arena(made.manifest.entries[0], 4 * 5);
  for (const int64_t before : {0, 1}) {
    steps[2].after = {before};
    EXPECT_NO_THROW(load(made)) << "what the first one wrote is there";
  }
  steps[2].after = {};
  EXPECT_THROW(load(made), Error);
}

TEST_F(CudaDevice, DescribedTensorsFollowTheirAddresses) {
  test::TestArtefact made = scale_model(256);
  format::CudaStep& step = made.manifest.entries[0].cuda_steps[0];
  step.tensor_maps = {{static_cast<int64_t>(step.params.size()), 0, DataType::kF32, {8, 32}, {4, 32}}};
  add_map_argument(step);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  test::Vector<float> x(256, 2.0f), z(256, 4.0f), y(256);
  const DLTensor inputs[] = {on_gpu(x), on_gpu(z)}, output = on_gpu(y);
  for (const DLTensor& input : inputs) {
    context->run(0, &input, &output);
    const test::FakeMap& map = fake.maps.back();
    EXPECT_EQ(map.address, input.data);
    EXPECT_EQ(map.shape, (std::vector<uint64_t>{32, 8}));
    EXPECT_EQ(map.strides, (std::vector<uint64_t>{128}));
    EXPECT_EQ(map.box, (std::vector<uint32_t>{32, 4}));
    EXPECT_EQ(map.type, cuda::kTensorBytes4);
    EXPECT_EQ(map.swizzle, cuda::kSwizzle128);
  }
  EXPECT_EQ(y.data[255], 60.0f);
}

// A 3 x 5 window, stride 2 down, in a 9 x 8 image padded by 1 and 2.
TEST_F(CudaDevice, WindowsAreDescribedByTheirCorners) {
  test::TestArtefact made = scale_model(2 * 9 * 8 * 32);
  format::CudaStep& step = made.manifest.entries[0].cuda_steps[0];
  step.tensor_maps = {{static_cast<int64_t>(step.params.size()),
                       0,
                       DataType::kF32,
                       {2, 9, 8, 32},
                       {64, 1, 1, 32},
                       {{5, 8}, {2, 1}, {1, 2}}}};
  add_map_argument(step);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  const test::FakeMap& map = fake.maps.back();
  EXPECT_EQ(map.shape, (std::vector<uint64_t>{32, 8, 9, 2}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{32, 64}));
  EXPECT_EQ(map.steps, (std::vector<uint32_t>{1, 1, 2, 1}));
  EXPECT_EQ(map.first, (std::vector<int>{-2, -1}));
  EXPECT_EQ(map.last, (std::vector<int>{-2, -1})) << "the last windows begin at 5 of 8 and 7 of 9, pads taken off";
}

TEST_F(CudaDevice, ShorterLinesOfBoxesAreSwizzledInTheirLength) {
  test::TestArtefact made = scale_model(256);
  format::CudaStep& step = made.manifest.entries[0].cuda_steps[0];
  step.tensor_maps = {{static_cast<int64_t>(step.params.size()), 0, DataType::kF32, {8, 32}, {4, 16}}};
  add_map_argument(step);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  test::Vector<float> x(256, 2.0f), y(256);
  const DLTensor input = on_gpu(x), output = on_gpu(y);
  context->run(0, &input, &output);
  EXPECT_EQ(fake.maps.back().swizzle, cuda::kSwizzle64);
}

// Buffers of a launch that is given whole are places among those of its kernel.
TEST(CudaSteps, TakeALaunchThatIsGivenWhole) {
  format::CudaLaunch launch;
  launch.whole.grid = {4, 2, 1};
  launch.whole.params.resize(256);
  launch.whole.arguments = {0};
  launch.whole.relocations = {{8, 1, 16}};
  launch.whole.tensor_maps = {{128, 0, DataType::kF16, {8, 64}, {8, 64}}};
  const int64_t args[] = {7, 5};
  const format::CudaStep step = format::step_over_tiles(3, 1, launch, args);
  EXPECT_EQ(step.kernel, 3);
  EXPECT_EQ(step.grid[1], 2);
  EXPECT_EQ(step.params.size(), 256U);
  EXPECT_EQ(step.relocations, (std::vector<format::Relocation>{{8, 5, 16}}));
  EXPECT_EQ(step.tensor_maps[0].buffer, 7);
  EXPECT_EQ(step.tensor_maps[0].offset, 128);
}

TEST(CudaSteps, TakeAsManyBlocksAsWalkOverTheTiles) {
  format::CudaLaunch launch;
  EXPECT_EQ(format::step_over_tiles(0, 300, launch, {}).grid[0], 300);
  launch.blocks = 264;
  EXPECT_EQ(format::step_over_tiles(0, 300, launch, {}).grid[0], 264);
}

TEST_F(CudaDevice, OtherAddressesUpdateTheNodesThatUseThem) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(5, 2.0f), z(5, 4.0f), y(5), host(5);
  const DLTensor inputs[] = {on_gpu(x), on_gpu(z)}, outputs[] = {on_gpu(y), host.view()};
  const auto run = [&](int input, int output) {
    const int before = fake.node_updates;
    context->run(0, &inputs[input], &outputs[output]);
    return fake.node_updates - before;
  };
  EXPECT_EQ(run(0, 0), 2) << "one step reads the input, the other writes the output";
  EXPECT_EQ(y.data[4], 30.0f);
  EXPECT_EQ(run(0, 0), 0);
  EXPECT_EQ(run(1, 0), 1);
  EXPECT_EQ(y.data[4], 60.0f);
  EXPECT_EQ(run(1, 1), 1);
  EXPECT_EQ(host.data[4], 60.0f);
  EXPECT_EQ(fake.instantiations, 1);
}

TEST_F(CudaDevice, AFailedUpdateIsTriedAgain) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(5, 2.0f), y(5);
  const DLTensor input = on_gpu(x), output = on_gpu(y);
  fake.update_result = 1;
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("'first'"), std::string::npos) << message_;
  fake.update_result = 0;
  context->run(0, &input, &output);
  EXPECT_EQ(y.data[0], 30.0f);
}

TEST_F(CudaDevice, EveryEntryHasAGraph) {
  test::TestArtefact made = scale_model(5);
  format::Entry longer = scale_model(9).manifest.entries[0];
  longer.name = "longer";
  made.manifest.entries.push_back(longer);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.instantiations, 2);
  for (const int64_t n : {9, 5, 9}) {
    test::Vector<float> x(static_cast<size_t>(n), 2.0f), y(static_cast<size_t>(n));
    const DLTensor input = x.view(), output = on_gpu(y);
    context->run(n == 9 ? 1 : 0, &input, &output);
    for (const float value : y.data) EXPECT_EQ(value, 30.0f);
  }
}

TEST_F(CudaDevice, MeasuredRunsAreBetweenTheCopies) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(5, 2.0f), y(5);
  const DLTensor input = x.view(), output = y.view();
  uint64_t times[3] = {};
  fake.calls.clear();
  context->measure(0, &input, &output, times);
  EXPECT_EQ(fake.calls, "ihgegegegeo") << "one run ahead of the timed ones, all submitted before it begins";
  EXPECT_EQ(y.data[0], 30.0f);
  for (const uint64_t time : times) EXPECT_EQ(time, 250'000u);
}

TEST_F(CudaDevice, ProfilesTimeStepsThatAreLaunchedOneByOne) {
  const auto model = load(scale_model(5));
  runtime::Options options;
  options.profile = 1;
  const auto context = own_context(*model, options);
  EXPECT_EQ(fake.instantiations, 0);
  test::Vector<float> x(5, 2.0f), y(5);
  const DLTensor input = x.view(), output = on_gpu(y);
  fake.calls.clear();
  test::ranges.clear();
  context->run(0, &input, &output);
  EXPECT_EQ(fake.calls, "ihekeke");
  EXPECT_EQ(test::ranges, (std::vector<std::string>{"only", "first", "end", "second", "end", "end"}));
  EXPECT_EQ(y.data[0], 30.0f);
  ASSERT_EQ(context->step_times().size(), 2u);
  EXPECT_EQ(context->step_times()[0], 250'000u);
  EXPECT_EQ(context->step_times()[1], 250'000u);
}

// y is what lies in the zeros after a first step, and then they are spoiled: each run begins with zeros all the same.
test::TestArtefact zeros_model() {
  test::TestArtefact made = scale_model(5);
  made.manifest.kernels.push_back({"copy", "cubin.0", 0, 5});
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers.push_back({Place::kArena, 0, 64, 128, ""});
  entry.zeros = {{5, 64, 64}};
  const auto copy = [](format::Relocation from, format::Relocation to) {
    return format::CudaStep{2, {5, 1, 1}, {32, 1, 1}, 0, std::vector<uint8_t>(16), {0, 8}, {from, to}, {}, false, "c"};
  };
  entry.cuda_steps = {entry.cuda_steps[0], copy({0, 5, 64}, {8, 2, 0}), copy({0, 1, 0}, {8, 5, 64})};
  entry.cuda_steps[2].after = {0, 1};
  return made;
}

TEST_F(CudaDevice, ZerosAreClearedOnceARunBesideTheStepsThatDoNotUseThem) {
  for (const int profile : {0, 1}) {
    const auto model = load(zeros_model());
    runtime::Options options;
    options.profile = profile;
    const auto context = own_context(*model, options);
    for (int round = 0; round < 2; ++round) {
      test::Vector<float> x(5, 2.0f), y(5, 7.0f);
      const DLTensor input = x.view(), output = y.view();
      context->run(0, &input, &output);
      EXPECT_EQ(y.data, std::vector<float>(5, 0.0f));
    }
    EXPECT_EQ(fake.cleared_before, (std::vector<size_t>{1})) << "in the graph, before the second step";
  }
}

TEST_F(CudaDevice, TheErrorWordIsAnErrorAndIsCleared) {
  test::TestArtefact made = failing_model(5);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  test::Vector<float> x(5), y(5);
  const DLTensor input = x.view(), output = y.view();
  uint64_t time = 0;
  fake.calls.clear();
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kInputValue);
  EXPECT_EQ(fake.calls, "iigoo") << "the word is written before and read after";
  EXPECT_EQ(message_, "step 'check': an index is out of range (error word 1); the outputs are not valid");
  EXPECT_EQ(refusal([&] { context->measure(0, &input, &output, {&time, 1}); }), ErrorCode::kInputValue);
}

/// y = relu(x w + b), scaled by scale_model's last step: x is m x k, the weights are w (k x n, stored transposed) and
/// b.
test::TestArtefact product_model(int64_t m, int64_t n, int64_t k) {
  test::TestArtefact made = scale_model(m * n);
  const int64_t bias_at = 16 + (4 * n * k + 15) / 16 * 16;
  made.weights.resize(static_cast<size_t>(bias_at + 4 * n));
  for (int64_t i = 0; i < n * k + n; ++i) {
    const float number = static_cast<float>(i % 5) - 2;
    std::memcpy(made.weights.data() + (i < n * k ? 16 + 4 * i : bias_at + 4 * (i - n * k)), &number, sizeof(number));
  }
  format::Entry& entry = made.manifest.entries[0];
  entry.inputs = {{"x", DataType::kF32, {m, k}}};
  entry.buffers[0].bytes = 4 * m * k;
  entry.buffers.push_back({Place::kWeights, 0, 16, 4 * n * k, "w"});
  entry.buffers.push_back({Place::kWeights, 0, bias_at, 4 * n, "b"});
  format::CudaStep step;
  step.call = format::join("cublaslt 130100 1 gemm batch=1 m=", m, " n=", n, " k=", k, " a=x:f32:", k, ":0 b=w:f32:", k,
                           ":0:t bias=b:f32 out=y:f32:", n, ":0 act=relu");
  step.operands = {0, 5, 6, 1};
  step.name = "product";
  entry.cuda_steps[0] = step;
  return made;
}

/// What product_model computes of `x`.
std::vector<float> product_of(const std::vector<float>& x, int64_t m, int64_t n, int64_t k) {
  const auto weight = [](int64_t i) { return static_cast<float>(i % 5) - 2; };
  std::vector<float> y;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = weight(n * k + j);
      for (int64_t l = 0; l < k; ++l) sum += x[static_cast<size_t>(i * k + l)] * weight(j * k + l);
      y.push_back(5 * std::max(sum, 0.0f));
    }
  }
  return y;
}

class LibraryCalls : public CudaDevice {
 protected:
  void SetUp() override {
    CudaDevice::SetUp();
    test::fake_library = {};
    driver_.open_cublaslt = test::fake_cublaslt;
  }
  void TearDown() override {
    EXPECT_EQ(test::fake_library.objects, 0);
    CudaDevice::TearDown();
  }
};

TEST_F(LibraryCalls, ArePartsOfTheGraph) {
  const auto model = load(product_model(3, 4, 5));
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.instantiations, 1);
  EXPECT_EQ(fake.calls, "ilc") << "weights; once by itself, which loads kernels; once captured";
  EXPECT_EQ(fake.overlapping_edges, 0) << "no kernel of ours goes before the second step";
  EXPECT_EQ(test::fake_library.used, 1);
  test::Vector<float> x(15), z(15, 0.5f), y(12);
  for (size_t i = 0; i < 15; ++i) x.data[i] = static_cast<float>(i) - 7;
  const DLTensor inputs[] = {x.view(), on_gpu(x), on_gpu(z)}, output = y.view();
  for (const int updates : {0, 1, 2}) {
    context->run(0, &inputs[updates], &output);
    EXPECT_EQ(y.data, product_of(updates == 2 ? z.data : x.data, 3, 4, 5));
    EXPECT_EQ(fake.node_updates, updates) << "the call is captured again for other addresses";
  }
  EXPECT_EQ(fake.graphs, 1) << "captured graphs are parts of it";
}

// See MatmulCall::is_safe.
TEST_F(LibraryCalls, ThatAddTakeNoLargeClusters) {
  test::fake_library.algorithms = 4;
  test::fake_library.clusters = {9, 5, 7, 3};  // 2x4, 1x2, 4x2, 2x1
  test::TestArtefact made = product_model(3, 4, 4);
  test::Vector<float> x(12, 1.5f);
  const auto run = [&] {
    test::Vector<float> y(12);
    const DLTensor input = x.view(), output = y.view();
    const auto model = load(made);
    own_context(*model, {})->run(0, &input, &output);
    return y.data;
  };
  std::vector<float> expected = product_of(x.data, 3, 4, 4);
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(test::fake_library.used, 1) << "a product alone takes the library's numbers";
  format::CudaStep& step = made.manifest.entries[0].cuda_steps[0];
  step.call.insert(step.call.find(" out="), " residual=x:f32");
  step.operands = {0, 5, 6, 0, 1};
  run();
  EXPECT_EQ(test::fake_library.used, 3) << "number 1 of those with small clusters";
  test::fake_library.clusters = {9, 7, 9, 3};
  EXPECT_EQ(refusal([&] { run(); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("offers 1 algorithms"), std::string::npos) << message_;
}

TEST_F(LibraryCalls, RunByThemselvesWhenProfiled) {
  const auto model = load(product_model(2, 2, 3));
  runtime::Options options;
  options.profile = 1;
  const auto context = own_context(*model, options);
  test::Vector<float> x(6, 2.0f), y(4);
  const DLTensor input = x.view(), output = y.view();
  fake.calls.clear();
  context->run(0, &input, &output);
  EXPECT_EQ(fake.calls,
            "iheleke"
            "o");
  EXPECT_EQ(y.data, product_of(x.data, 2, 2, 3));
}

TEST_F(LibraryCalls, NeedTheirLibraryAndItsAlgorithm) {
  driver_.open_cublaslt = test::fake_driver().open_cublaslt;
  EXPECT_EQ(refusal([&] { load(product_model(2, 2, 3)); }), ErrorCode::kDevice);
  EXPECT_EQ(exit_code_, 5);
  EXPECT_EQ(message_, "this artefact needs cublaslt, measured with version 130100: no cuBLASLt in this test");
  driver_.open_cublaslt = test::fake_cublaslt;
  test::fake_library.algorithms = 1;
  const auto model = load(product_model(2, 2, 3));
  EXPECT_EQ(refusal([&] { own_context(*model, {}); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("cuBLASLt 130100 offers 1 algorithms for gemm batch=1 m=2"), std::string::npos) << message_;
  test::fake_library = {};
  test::fake_library.make_result = 3;  // CUBLAS_STATUS_ALLOC_FAILED
  EXPECT_EQ(refusal([&] { own_context(*model, {}); }), ErrorCode::kOutOfMemory);
  EXPECT_EQ(exit_code_, 6);
  test::fake_library = {};
  fake.memory_limit = 300;
  test::fake_library.workspace_bytes = 500;
  EXPECT_EQ(refusal([&] { own_context(*model, {}); }), ErrorCode::kOutOfMemory);
  EXPECT_NE(message_.find("no 500 bytes for the libraries"), std::string::npos) << message_;
}

// Whatever numbers a manifest holds, what comes of it is a context or an error; nothing is run.
TEST_F(LibraryCalls, ManifestsOfOtherNumbersLoadOrAreRefused) {
  test::TestArtefact made = product_model(16, 32, 8);
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers.push_back({Place::kArena, 0, 4096, 128, ""});
  entry.arena_bytes = 4224;
  entry.zeros = {{7, 64, 64}};
  format::CudaStep& step = entry.cuda_steps[1];
  step.relocations.push_back({16, 7, 0});
  step.tensor_maps = {
      {std::ssize(step.params), 1, DataType::kF32, {2, 1, 8, 32}, {16, 1, 1, 32}, {{1, 5}, {1, 2}, {0, 1}}}};
  add_map_argument(step);
  const std::string text = format::to_json(made.manifest);
  std::mt19937 random(7);
  const auto is_digit = [&](size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  std::map<ErrorCode, int> seen;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = text;
    size_t at = random() % text.size();
    while (!is_digit(at)) at = (at + 1) % text.size();
    for (; is_digit(at); ++at) changed[at] = random() % 2 != 0 ? '9' : "0123456789"[random() % 10];
    ++seen[refusal([&] {
      made.manifest = format::manifest_from_json(changed);
      try {
        file_ = made.file();
      } catch (const Error& error) {
        throw Error(ErrorCode::kDamaged, error.what());  // what the writer checks a reader does
      }
      own_context(*load(made), {});
    })];
  }
  for (const auto& [code, times] : seen)
    EXPECT_TRUE(code == ErrorCode{} || format::exit_code(code) == 5 || format::exit_code(code) == 6) << message_;
  EXPECT_GT(seen[ErrorCode{}], 100);
  EXPECT_GT(seen[ErrorCode::kDamaged], 100);
}

TEST(SharedLibraries, SayWhyTheyCannotBeOpened) {
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(format::exit_code(error.code()), 5);
      return error.what();
    }
    return "";
  };
  const std::string missing = message([] { cuda::SharedLibrary("cuBLASLt", {"libnone.so.1"}, "install cuBLAS"); });
  EXPECT_TRUE(missing.starts_with("cuBLASLt: libnone.so.1 cannot be opened (libnone.so.1: cannot open shared object"));
  EXPECT_NE(missing.find("install cuBLAS, name its folder in TILEWRIGHT_LIBRARY_PATH"), std::string::npos) << missing;
  const cuda::SharedLibrary library("C", {"libnone.so.1", "libc.so.6"}, "");
  size_t (*length)(const char*) = nullptr;
  library.resolve("strlen", length);
  EXPECT_EQ(length("four"), 4U);
  EXPECT_EQ(message([&] { library.resolve("no_such_function", length); }),
            "C is too old: it has no function no_such_function");
}

TEST_F(CudaDevice, NoGpuIsExitCode5) {
  for (const auto& [init, devices] : {std::pair{cuda::kErrorNoDevice, 1}, std::pair{cuda::kSuccess, 0}}) {
    fake.init_result = init;
    fake.devices = devices;
    EXPECT_EQ(refusal([&] { load(scale_model(5)); }), ErrorCode::kDevice);
    EXPECT_NE(message_.find("finds no GPU"), std::string::npos) << message_;
    EXPECT_EQ(exit_code_, 5);
  }
  fake.init_result = 999;
  EXPECT_EQ(refusal([&] { load(scale_model(5)); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("made-up text (CUDA error 999)"), std::string::npos) << message_;
  fake = test::FakeGpu();
  EXPECT_EQ(refusal([&] { load(scale_model(5), 1); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("no GPU number 1; the machine has 1"), std::string::npos) << message_;
}

TEST_F(CudaDevice, AnOldDriverIsExitCode5AndNamesWhatItLacks) {
  void* no_driver = dlopen(nullptr, RTLD_NOW);
  EXPECT_EQ(refusal([&] { cuda::resolve_driver(no_driver); }), ErrorCode::kDevice);
  dlclose(no_driver);
  EXPECT_EQ(exit_code_, 5);
  EXPECT_NE(message_.find("too old: it has no function cuInit"), std::string::npos) << message_;
  EXPECT_NE(message_.find("CUDA 12.3 (version 545)"), std::string::npos) << message_;
}

TEST_F(CudaDevice, PtxOfANewerToolkitIsExitCode5) {
  driver_.module_load_data = [](cuda::ModuleHandle*, const void*) { return cuda::kErrorUnsupportedPtxVersion; };
  test::TestArtefact made = scale_model(5);
  made.manifest.targets[0].arch = "sm_80";
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kIncompatible);
  EXPECT_EQ(exit_code_, 5);
}

TEST_F(CudaDevice, CodeForAnotherArchitectureIsExitCode5) {
  test::TestArtefact made = scale_model(5);
  for (const char* other : {"sm_80a", "sm_100", "sm_100a"}) {
    made.manifest.targets[0].arch = other;
    EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kIncompatible);
    EXPECT_EQ(exit_code_, 5);
    EXPECT_EQ(message_, "the artefact is for " + std::string(other) +
                            "; GPU 0 (Fake 9) is sm_90: compile the model for that architecture");
  }
  made.manifest.targets[0].arch = "sm_80";  // what it has for later GPUs is for the driver to find
  load(made);
  made = scale_model(5);
  made.code[0] = 'x';
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kIncompatible);
  EXPECT_EQ(exit_code_, 5);
  made = scale_model(5);
  made.manifest.kernels[0].name = "missing";
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("'missing'"), std::string::npos);
}

TEST_F(CudaDevice, OutOfMemoryIsExitCode6AndSaysHowMuchWasWanted) {
  const auto model = load(scale_model(5));
  fake.memory_limit = 100;
  EXPECT_EQ(refusal([&] { own_context(*model, {}); }), ErrorCode::kOutOfMemory);
  EXPECT_EQ(exit_code_, 6);
  EXPECT_EQ(message_, "the GPU has no 276 bytes for the arena: 100 of its 1048576 bytes are free");
  fake.memory_limit = 4;
  EXPECT_EQ(refusal([&] { load(scale_model(6)); }), ErrorCode::kOutOfMemory);
  EXPECT_NE(message_.find("no 8 bytes for the weights"), std::string::npos) << message_;
  fake.memory_limit = 1 << 20;
  fake.instantiate_result = cuda::kErrorOutOfMemory;
  EXPECT_EQ(refusal([&] { own_context(*model, {}); }), ErrorCode::kOutOfMemory);
  EXPECT_NE(message_.find("CUDA graph"), std::string::npos) << message_;
}

TEST_F(CudaDevice, AFailedLaunchIsADeviceError) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(5), y(5);
  const DLTensor input = x.view(), output = y.view();
  fake.launch_result = 700;
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kDevice);
  EXPECT_EQ(exit_code_, 5);
  EXPECT_EQ(message_,
            "cannot launch the entry's CUDA graph: made-up text (CUDA error 700); this process cannot use the GPU any "
            "more: start it again");
  fake.launch_result = 1;  // an invalid value: nothing is lost
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kDevice);
  EXPECT_TRUE(message_.ends_with("(CUDA error 1)")) << message_;
}

// The caller may free its tensors as soon as it has an error.
TEST_F(CudaDevice, AnErrorMidWayWaitsForWhatIsUnderWay) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  test::Vector<float> x(5, 2.0f), y(6);
  DLTensor input = on_gpu(x), output = on_gpu(y);
  output.byte_offset = 4;  // copied where it belongs
  fake.copy_result = 1;
  const int waits = fake.waits;
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("copy an output"), std::string::npos) << message_;
  EXPECT_EQ(fake.graph_launches, 1);
  EXPECT_EQ(fake.waits, waits + 1);
  fake.copy_result = 0;
  context->run(0, &input, &output);
  EXPECT_EQ(y.data[1], 30.0f);
}

// The driver reads the parameters that a kernel takes, which a step might not have.
TEST_F(CudaDevice, ParametersAreThoseThatTheKernelTakes) {
  for (const std::vector<int64_t>& arguments : {std::vector<int64_t>{}, {0, 8, 16}, {0, 8, 16, 25}, {31, 8, 16, 24}}) {
    test::TestArtefact made = scale_model(5);
    made.manifest.entries[0].cuda_steps[1].arguments = arguments;
    EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kDamaged);
    EXPECT_EQ(message_, "step 'second' has other parameters than its kernel takes");
  }
  fake.unknown_params = 0;  // compute-sanitizer reports questions that the driver refuses
  load(scale_model(5));
  EXPECT_EQ(fake.unknown_params, 0);
  driver_.param_info = nullptr;  // an older driver
  test::TestArtefact made = scale_model(5);
  made.manifest.entries[0].cuda_steps[1].arguments = {0, 8, 16};
  load(made);
}

// Code for sm_80 runs on sm_86, whose blocks have less memory.
TEST_F(CudaDevice, TooMuchSharedMemoryNamesItsKernel) {
  fake.shared_limit = 99 * 1024;
  load(scale_model(5));
  test::TestArtefact made = scale_model(5);
  made.manifest.entries[0].cuda_steps[0].shared_bytes = 160 * 1024;
  EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kDevice);
  EXPECT_NE(message_.find("cannot reserve 163840 bytes of shared memory for kernel 'scale': "), std::string::npos)
      << message_;
}

TEST_F(CudaDevice, BinaryCompatibility) {
  EXPECT_TRUE(cuda::runs_on("sm_80", 8, 0));
  EXPECT_TRUE(cuda::runs_on("sm_80", 8, 6));
  EXPECT_FALSE(cuda::runs_on("sm_86", 8, 0));
  EXPECT_TRUE(cuda::runs_on("sm_80", 9, 0));  // through its PTX
  EXPECT_TRUE(cuda::runs_on("sm_86", 10, 0));
  EXPECT_FALSE(cuda::runs_on("sm_80", 7, 5));
  EXPECT_TRUE(cuda::runs_on("sm_90a", 9, 0));
  EXPECT_FALSE(cuda::runs_on("sm_90a", 10, 0));
  EXPECT_FALSE(cuda::runs_on("sm_90a", 8, 0));
  EXPECT_TRUE(cuda::runs_on("sm_100f", 10, 3));
  EXPECT_FALSE(cuda::runs_on("sm_100f", 11, 0));
  EXPECT_TRUE(cuda::runs_on("sm_100a", 10, 0));
  EXPECT_FALSE(cuda::runs_on("sm_100a", 10, 3));
  for (const char* wrong : {"", "sm_", "sm_90b", "sm_x", "compute_90", "x86-64"})
    EXPECT_FALSE(cuda::runs_on(wrong, 9, 0)) << wrong;
}

}  // namespace
}  // namespace tw
#endif
