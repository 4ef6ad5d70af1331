// Candidates on a GPU, against a driver made for tests: what is launched on which memory, what is timed, and what
// becomes of a candidate that spoils the device.
#ifdef TW_RUNTIME_CUDA
#include "measure/cuda_executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "measure/fill.h"
#include "measure/worker_measurer.h"
#include "runtime/format/error.h"
#include "tests/runtime/fake_cublaslt.h"
#include "tests/runtime/fake_cuda_released.h"

namespace tw::measure {
namespace {

using tw::test::fake;
using Outputs = Request::Outputs;

constexpr int64_t kElements = 24;
constexpr double kEventNs = 250e3;  // between two events of the fake driver

// Buffer 0 becomes what `kernel` makes of buffer 1.
Workload workload(const std::string& kernel, const std::string& cubin = "cubin") {
  Workload w;
  const auto* code = reinterpret_cast<const std::byte*>(cubin.data());
  w.code.assign(code, code + cubin.size());
  w.buffers.resize(2);
  for (BufferSpec& b : w.buffers) b.type = {DataType::f32(), {kElements}};
  w.buffers[1].fill = Fill::kSigned;
  w.buffers[1].seed = 5;
  WorkStep step;
  step.kernel = kernel;
  step.tiles = kElements;
  step.cuda.threads = 64;
  step.cuda.shared_bytes = 100'000;
  step.args = {1, 0};
  w.steps = {step};
  w.wanted = {{0, {}}};
  return w;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

class CudaExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake = test::FakeGpu();
    executor_ = make_cuda_executor("sm_90a", driver_);
  }
  void TearDown() override {
    executor_.reset();
    test::expect_all_released();
  }
  Executor::Ran run(const Workload& w, Outputs outputs = Outputs::kKeep) {
    executor_->load(0, w, 0, 0);
    return executor_->run(0, outputs);
  }

  runtime::cuda::Driver driver_ = test::fake_driver();
  std::unique_ptr<Executor> executor_;
};

TEST_F(CudaExecutorTest, RunsTheKernelAsTheRuntimeDoes) {
  Workload w = workload("copy");
  w.wanted = {{0, {3, 23}}, {0, {}}};
  const Executor::Ran ran = run(w);
  const std::vector<std::byte> want = storage_bytes(w.buffers[1]);
  ASSERT_EQ(ran.samples.size(), 2U);
  EXPECT_EQ(ran.samples[1], want);
  EXPECT_EQ(floats(ran.samples[0]), (std::vector<float>{floats(want)[3], floats(want)[23]}));
  EXPECT_EQ(ran.warm_ns, kEventNs);
  EXPECT_EQ(fake.grid[0], 24U);
  EXPECT_EQ(fake.block[0], 64U);
  EXPECT_EQ(fake.shared, 100'000U);
  EXPECT_EQ(fake.max_shared, 100'000);
  EXPECT_EQ(fake.launches, 0);  // graphs only
}

// Buffer 3 becomes the product of buffer 1 and the number in buffer 2, buffer 0 what "negate" makes of that.
TEST_F(CudaExecutorTest, CallsOfLibrariesStandBetweenKernels) {
  test::fake_library = {};
  driver_.open_cublaslt = test::fake_cublaslt;
  Workload w = workload("negate");
  w.buffers.resize(4, w.buffers[0]);
  w.buffers[2] = w.buffers[1];
  w.buffers[2].type = {DataType::f32(), {1}};
  w.steps.insert(w.steps.begin(), WorkStep());
  w.steps[0].args = {1, 2, 3};
  w.steps[0].tiles = 1;
  w.steps[0].cuda.call = "cublaslt 130100 0 gemm batch=1 m=24 n=1 k=1 a=x:f32:1:0 b=w:f32:1:0 out=y:f32:1:0";
  w.steps[0].cuda.operands = {0, 1, 2};
  w.steps[1].args = {3, 0};
  const Executor::Ran ran = run(w);
  std::vector<float> want = floats(storage_bytes(w.buffers[1]));
  for (float& x : want) x *= -floats(storage_bytes(w.buffers[2]))[0];
  EXPECT_EQ(floats(ran.samples[0]), want);
  const int kernels = fake.kernels_run;
  EXPECT_EQ(executor_->sample(0, 10, 3).size(), 3U);
  EXPECT_EQ(fake.kernels_run - kernels, 40);
  executor_->reset();
  EXPECT_EQ(test::fake_library.objects, 0);
  test::fake_library.algorithms = 0;
  EXPECT_THROW(executor_->load(0, w, 0, 0), format::Error);
}

// What was in it before would keep a kernel that waits for its zeros waiting.
TEST_F(CudaExecutorTest, WorkspacesBeginWithTheirZeros) {
  Workload w = workload("copy");
  w.buffers[1] = {{DataType::f32(), {kElements}}};
  w.steps[0].cuda.workspace_bytes = w.steps[0].cuda.zero_bytes = kElements * 4;
  w.steps[0].args = {0, 1};  // an output and the workspace
  w.steps[0].cuda.whole.grid = {kElements, 1, 1};
  w.steps[0].cuda.whole.params.resize(16);
  w.steps[0].cuda.whole.arguments = {0, 8};
  w.steps[0].cuda.whole.relocations = {{0, 1, 0}, {8, 0, 0}};
  EXPECT_EQ(floats(run(w).samples[0]), std::vector<float>(kElements, 0.0f));
  executor_->sample(0, 10, 3);
  EXPECT_EQ(fake.cleared_before, (std::vector<size_t>{0, 0})) << "once in each graph, whatever it repeats";
}

TEST_F(CudaExecutorTest, ASampleIsTheTimeOfOneRunOfManyInAGraph) {
  run(workload("copy"));
  const int instantiated = fake.instantiations, kernels = fake.kernels_run, graphs = fake.graph_launches;
  const std::vector<Sample> samples = executor_->sample(0, 10, 3);
  ASSERT_EQ(samples.size(), 3U);
  for (const Sample& s : samples) EXPECT_EQ(s.nanoseconds, kEventNs / 10);
  EXPECT_EQ(fake.instantiations, instantiated + 1);
  EXPECT_EQ(fake.graph_launches - graphs, 4);  // one ahead of those that are timed
  EXPECT_EQ(fake.kernels_run - kernels, 40);
  executor_->sample(0, 10, 3);
  EXPECT_EQ(fake.instantiations, instantiated + 1);  // the graph is kept
}

TEST_F(CudaExecutorTest, ColdBuffersAreOtherMemoryEachTime) {
  Workload w = workload("copy");
  w.buffers[1].cache_state = CacheState::kCold;
  executor_->load(0, w, 3.5 * 4 * kElements, 0);
  executor_->run(0, Outputs::kKeep);
  fake.copied.clear();
  executor_->sample(0, 1, 1);
  ASSERT_EQ(fake.copied.size(), 10U);  // a graph ahead, and the timed one
  EXPECT_EQ(std::set<const void*>(fake.copied.begin(), fake.copied.begin() + 5).size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(fake.copied[i], fake.copied[i + 5]);
    EXPECT_EQ(std::memcmp(fake.copied[i], storage_bytes(w.buffers[1]).data(), 4 * kElements), 0);
  }
}

TEST_F(CudaExecutorTest, WarmBuffersAreTheSameMemory) {
  executor_->load(0, workload("copy"), 1e6, 0);
  executor_->load(1, workload("negate"), 1e6, 0);
  executor_->run(0, Outputs::kKeep);
  executor_->run(1, Outputs::kKeep);
  EXPECT_EQ(std::set<const void*>(fake.copied.begin(), fake.copied.end()).size(), 1U);
}

TEST_F(CudaExecutorTest, OutputsAreComparedWithThoseThatWereKept) {
  executor_->load(0, workload("copy"), 0, 0);
  executor_->load(1, workload("negate"), 0, 0);
  executor_->run(0, Outputs::kKeep);
  EXPECT_EQ(executor_->run(0, Outputs::kCompare).differences.at(0).element, -1);
  const Executor::Ran other = executor_->run(1, Outputs::kCompare);
  EXPECT_GT(other.differences.at(0).largest, 0.125);
}

TEST_F(CudaExecutorTest, WritingOutsideOfABufferIsRefused) {
  EXPECT_THROW(run(workload("outside")), InternalError);
  EXPECT_TRUE(executor_->is_usable());
  EXPECT_NO_THROW(run(workload("copy")));
}

TEST_F(CudaExecutorTest, CodeThatTheGpuDoesNotRunIsRefused) {
  EXPECT_THROW(run(workload("copy", "text")), format::Error);
  EXPECT_THROW(run(workload("no such kernel")), format::Error);
  EXPECT_TRUE(executor_->is_usable());
}

TEST_F(CudaExecutorTest, AfterAFaultNothingCanBeAskedForAnyMore) {
  EXPECT_THROW(run(workload("fault")), format::Error);
  EXPECT_FALSE(executor_->is_usable());
}

TEST_F(CudaExecutorTest, MemoryThatIsNotThereIsNoFaultOfTheCandidate) {
  fake.memory_limit = 100;
  try {
    run(workload("copy"));
    FAIL();
  } catch (const format::Error& error) {
    EXPECT_EQ(error.code(), format::ErrorCode::kOutOfMemory);
  }
  EXPECT_TRUE(executor_->is_usable());
}

// Through a worker process, which ends with its GPU's context and is started anew.
TEST(CudaWorker, AFaultyCandidateIsQuarantinedAndTheOthersAreMeasured) {
  WorkerOptions options;
  options.command = {TW_GPU_WORKER};
  WorkerMeasurer measurer(options);
  const std::vector<Workload> candidates = {workload("copy"),    workload("fault"),        workload("copy"),
                                            workload("outside"), workload("copy", "text"), workload("negate")};
  MeasureOptions measure;
  measure.disagree = [](std::span<const Difference> d) { return d[0].largest > 1e-6 ? "another result" : ""; };
  const std::vector<Measured> measured = measurer.measure(std::span(candidates).first(5), measure);
  const Outcome want[] = {Outcome::kMeasured, Outcome::kCrashed, Outcome::kMeasured, Outcome::kDeclined,
                          Outcome::kDeclined};
  for (size_t i = 0; i < measured.size(); ++i)
    EXPECT_EQ(outcome_name(measured[i].outcome), outcome_name(want[i])) << i << ": " << measured[i].reason;
  EXPECT_NE(measured[1].reason.find("CUDA error 700"), std::string::npos) << measured[1].reason;
  EXPECT_GE(measured[0].timing.samples, measure.samples);
  const std::vector<Measured> two = measurer.measure(std::vector<Workload>{candidates[0], candidates[5]}, measure);
  EXPECT_EQ(outcome_name(two[1].outcome), outcome_name(Outcome::kWrong)) << two[1].reason;
}

TEST(CudaWorker, WithoutAGpuItSaysSo) {
  WorkerOptions options;
  options.command = {TW_GPU_WORKER, "no-gpu"};
  WorkerMeasurer measurer(options);
  const Result<int> available = measurer.available();
  ASSERT_FALSE(available.ok());
  EXPECT_NE(available.reason().find("finds no GPU"), std::string::npos) << available.reason();
}

}  // namespace
}  // namespace tw::measure
#endif
