// Repeats on the CUDA device, against the driver made for tests (fake_cuda.h).
#ifdef TW_RUNTIME_CUDA
#include <algorithm>
#include <array>

#include "tests/runtime/cuda_fixture.h"
#include "tests/runtime/fake_cublaslt.h"

namespace tw {
namespace {

using format::DataType;
using format::ErrorCode;
using format::Place;
using test::CudaDevice;
using test::fake;
using test::on_gpu;
using test::own_context;

constexpr size_t kTurns = 3, kRow = 4;  // elements

/// Step "first" scales x to the arena; then "carry" in three turns: y[t] = y[t - 1] * factor[t], where y[-1] is in the
/// arena and the factors are 2, 3 and 5; step "last" leaves 7 times the last row in the arena.
test::TestArtefact powers_model() {
  test::TestArtefact made = test::scale_model(kRow);
  const float factors[] = {2, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 7};
  made.weights.resize(sizeof(factors));
  std::memcpy(made.weights.data(), factors, sizeof(factors));
  format::Entry& entry = made.manifest.entries[0];
  entry.outputs[0].shape = {kTurns, kRow};
  constexpr int64_t kBytes = 4 * kRow;
  entry.arena_bytes = 256 + 4 * kBytes;
  entry.repeats = {{1, 1, kTurns}};
  entry.buffers = {{Place::kInput, 0, 0, kBytes, "x"},
                   {Place::kArena, 0, 256, kBytes, "scaled"},
                   {Place::kOutput, 0, 0, kBytes, "y before", {{0, kBytes, kTurns - 1, 1, kTurns}}, {1}},
                   {Place::kOutput, 0, 0, kBytes, "y", {{0, kBytes, 0, 1, kTurns}}},
                   {Place::kWeights, 0, 0, 4, "factor", {{0, 16, 0, 1, kTurns}}},
                   {Place::kWeights, 0, 48, 4, "7"},
                   {Place::kOutput, 0, 32, kBytes, "last row"},
                   {Place::kArena, 0, 256 + kBytes, kBytes, "end"}};
  const format::CudaStep first = entry.cuda_steps[0], second = entry.cuda_steps[1];
  entry.cuda_steps = {first, second, second};
  entry.cuda_steps[0].relocations = {{0, 0, 0}, {8, 5, 0}, {16, 1, 0}};
  entry.cuda_steps[1].relocations = {{0, 2, 0}, {8, 4, 0}, {16, 3, 0}};
  entry.cuda_steps[1].name = "carry";
  entry.cuda_steps[2].relocations = {{0, 6, 0}, {8, 5, 0}, {16, 7, 0}};
  entry.cuda_steps[2].name = "last";
  entry.cuda_steps[2].after = {1};
  return made;
}

void expect_powers(const std::vector<float>& y, float x) {
  float value = 7 * x;
  for (size_t t = 0; t < kTurns; ++t) {
    value *= std::array{2.0f, 3.0f, 5.0f}[t];
    for (size_t i = 0; i < kRow; ++i) EXPECT_EQ(y[t * kRow + i], value) << t;
  }
}

/// y as a tensor of kTurns rows.
struct Rows {
  Rows() : values(kTurns * kRow) {}
  DLTensor view() {
    DLTensor tensor = values.view();
    tensor.ndim = 2, tensor.shape = shape;
    return tensor;
  }
  DLTensor on_gpu() {
    DLTensor tensor = view();
    tensor.device = {kDLCUDA, 0};
    return tensor;
  }
  test::Vector<float> values;
  int64_t shape[2] = {kTurns, kRow};
};

TEST_F(CudaDevice, TurnsAreNodesInARow) {
  const auto model = load(powers_model());
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.instantiations, 1);
  EXPECT_EQ(fake.edges, 4) << "five launches, each after the one before";
  EXPECT_EQ(fake.overlapping_edges, 4);
  for (const float x : {1.0f, 2.0f}) {
    test::Vector<float> in(kRow, x);
    Rows y;
    const DLTensor input = in.view(), output = y.view();
    context->run(0, &input, &output);
    expect_powers(y.values.data, x);
    std::vector<float> end(kRow);
    context->read_buffer(0, 7, end.data());
    EXPECT_EQ(end[3], 7 * y.values.data.back());
  }
  EXPECT_EQ(fake.kernels_run, 10);
  EXPECT_EQ(fake.node_updates, 0);
}

TEST_F(CudaDevice, EveryTurnFollowsTheCallersTensors) {
  const auto model = load(powers_model());
  const auto context = own_context(*model, {});
  test::Vector<float> x(kRow, 2.0f);
  Rows y, z;
  const auto run = [&](const DLTensor& output) {
    const int before = fake.node_updates;
    const DLTensor input = x.view();
    context->run(0, &input, &output);
    return fake.node_updates - before;
  };
  EXPECT_EQ(run(y.on_gpu()), 4) << "three turns and the last step";
  expect_powers(y.values.data, 2);
  EXPECT_EQ(run(y.on_gpu()), 0);
  EXPECT_EQ(run(z.on_gpu()), 4);
  expect_powers(z.values.data, 2);
}

TEST_F(CudaDevice, AProfileHasAStepsTurnsTogether) {
  const auto model = load(powers_model());
  runtime::Options options;
  options.profile = 1;
  const auto context = own_context(*model, options);
  test::Vector<float> x(kRow, 2.0f);
  Rows y;
  const DLTensor input = x.view(), output = y.view();
  for (int i = 0; i < 2; ++i) {
    fake.calls.clear();
    context->run(0, &input, &output);
    EXPECT_EQ(fake.calls, "ihekekekekekeo");
    expect_powers(y.values.data, 2);
    const std::span<const uint64_t> times = context->step_times();
    EXPECT_EQ(std::vector(times.begin(), times.end()), (std::vector<uint64_t>{250'000, 750'000, 250'000}));
  }
}

TEST_F(CudaDevice, DescribedTensorsMove) {
  test::TestArtefact made = powers_model();
  format::CudaStep& step = made.manifest.entries[0].cuda_steps[1];
  format::Entry& entry = made.manifest.entries[0];
  // Eight elements, two rows, from row 0 and then from row 1.
  entry.buffers.push_back({Place::kOutput, 0, 0, 32, "", {{0, 16, 0, 1, 2}}});
  step.tensor_maps = {{static_cast<int64_t>(step.params.size()), 8, DataType::kF32, {1, 8}, {1, 8}}};
  test::add_map_argument(step);
  const auto model = load(made);
  const auto context = own_context(*model, {});
  test::Vector<float> x(kRow, 2.0f);
  Rows y;
  const DLTensor input = x.view(), output = y.on_gpu();
  fake.maps.clear();
  context->run(0, &input, &output);
  ASSERT_EQ(fake.maps.size(), kTurns);
  for (size_t t = 0; t < kTurns; ++t) EXPECT_EQ(fake.maps[t].address, y.values.data.data() + t % 2 * kRow);
}

// y[t] = y[t - 1] w, where w is twice the unit matrix and y[-1] is in the arena.
TEST_F(CudaDevice, CallsOfLibrariesMove) {
  test::fake_library = {};
  driver_.open_cublaslt = test::fake_cublaslt;
  test::TestArtefact made = powers_model();
  made.weights.resize(128);
  const float two = 2;
  for (size_t i = 0; i < kRow; ++i) std::memcpy(made.weights.data() + 64 + 4 * (i * kRow + i), &two, sizeof(two));
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers.push_back({Place::kWeights, 0, 64, 64, "w"});
  format::CudaStep& step = entry.cuda_steps[1];
  step = {};
  step.call = "cublaslt 130100 1 gemm batch=1 m=1 n=4 k=4 a=x:f32:4:0 b=w:f32:4:0 out=y:f32:4:0";
  step.operands = {2, 8, 3};
  step.name = "product";
  step.after = {0};
  const auto model = load(made);
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.calls, "ilccc") << "weights; once by itself, which loads kernels; captured for each turn";
  test::Vector<float> x(kRow, 1.0f);
  Rows y;
  const DLTensor input = x.view();
  for (const DLTensor& output : {y.view(), y.on_gpu()}) {
    std::ranges::fill(y.values.data, 0.0f);
    context->run(0, &input, &output);
    for (size_t i = 0; i < kTurns * kRow; ++i) EXPECT_EQ(y.values.data[i], (std::array{14.0f, 28.0f, 56.0f})[i / kRow]);
  }
}

TEST_F(CudaDevice, AStepInARepeatThatMayFailIsNamedOnce) {
  test::TestArtefact made = powers_model();
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers.push_back({Place::kError, 0, 0, 4, ""});
  format::CudaStep failing = entry.cuda_steps[1];
  failing.kernel = 1;
  failing.relocations = {{0, 8, 0}};
  failing.name = "check";
  failing.after = {1};
  entry.cuda_steps.insert(entry.cuda_steps.begin() + 2, failing);
  entry.cuda_steps[3].after = {2};
  entry.repeats[0].count = 2;
  const auto model = load(made);
  const auto context = own_context(*model, {});
  test::Vector<float> x(kRow);
  Rows y;
  const DLTensor input = x.view(), output = y.view();
  EXPECT_EQ(refusal([&] { context->run(0, &input, &output); }), ErrorCode::kInputValue);
  EXPECT_NE(message_.find("step 'check': "), std::string::npos) << message_;
}

TEST_F(CudaDevice, ZerosAreClearedBeforeTheFirstLaunchThatUsesThem) {
  test::TestArtefact made = powers_model();
  format::Entry& entry = made.manifest.entries[0];
  entry.buffers.push_back({Place::kArena, 0, 0, 64, ""});
  entry.zeros = {{8, 0, 64}};
  entry.cuda_steps[2].relocations[0].buffer = 8;
  const auto model = load(made);
  const auto context = own_context(*model, {});
  EXPECT_EQ(fake.cleared_before, (std::vector<size_t>{4}));
}

TEST_F(CudaDevice, RepeatsOfStepsThatAreNoChainAreRefused) {
  const auto expect_refused = [&](const std::function<void(format::Entry&)>& change, const std::string& message) {
    test::TestArtefact made = powers_model();
    change(made.manifest.entries[0]);
    EXPECT_EQ(refusal([&] { load(made); }), ErrorCode::kInternal)
        << "what the writer checks a reader does: " << message;
    EXPECT_NE(message_.find(message), std::string::npos) << message_;
  };
  using E = format::Entry;
  expect_refused([](E& e) { e.cuda_steps[2].after = {}; }, "step 'last', which does not wait for the one before it");
  expect_refused([](E& e) { e.cuda_steps[2].after = {0}; }, "step 'last', which does not wait for the one before it");
  expect_refused([](E& e) { e.cuda_steps[2].after = {0, 1}; }, "which does not wait for the one before it");
  expect_refused([](E& e) { e.buffers[4].moves[0].bytes = 4; }, "a buffer between accesses");
  expect_refused([](E& e) { e.cuda_steps[2].relocations[0].buffer = 3; }, "step 'last' outside of a repeat");
  expect_refused([](E& e) { e.zeros = {{1, 0, 16}}; }, "begins in one of zeros");
  expect_refused(
      [](E& e) {
        e.buffers.push_back({Place::kArena, 0, 0, 64, "", {{0, 0, 0, 0, 1}}});
        e.zeros = {{8, 0, 64}};
      },
      "zeros of a buffer that moves");
  expect_refused(
      [](E& e) {
        e.buffers.push_back({Place::kArena, 0, 0, 64, ""});
        e.buffers.push_back({Place::kArena, 0, 64, 16, ""});
        e.zeros = {{9, 0, 16}};
        e.buffers[8].bytes = 32, e.buffers[8].moves = {{0, 32, 0, 1, 2}};
        e.buffers[8].offset = 16;
      },
      "a buffer where its zeros lie");
}

}  // namespace
}  // namespace tw
#endif
