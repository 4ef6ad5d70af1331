// The rates of GPUs: what is measured (on an executor that is none), kept and read.
#include "driver/machine/device.h"

#include <gtest/gtest.h>

#include <map>

#include "driver/machine/bounds.h"
#include "driver/machine/device_kernels.h"
#include "targets/registry.h"
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/nvrtc.h"
#endif

namespace tw::driver::machine {
namespace {

constexpr double kRunNs = 1e7;
constexpr const char* kKey = R"({"device":"NVIDIA Test","target":"cuda:sm_90a","measurement":1})";

TargetInfo h100() { return targets::find_target("cuda:sm_90a").info; }

// Says that every run takes 10 ms, a disturbed one now and then ten times as much.
class TenMilliseconds final : public measure::Executor {
 public:
  int threads() const override { return 1; }
  void load(int64_t, const measure::Workload& workload, double, int) override { loaded.push_back(workload); }
  Ran run(int64_t, measure::Request::Outputs) override { return {{}, {}, kRunNs}; }
  std::vector<measure::Sample> sample(int64_t, int64_t runs, int64_t samples) override {
    repetitions.push_back(runs);
    std::vector<measure::Sample> all(static_cast<size_t>(samples), {kRunNs, true});
    all.front().nanoseconds = all.back().nanoseconds = 10 * kRunNs;
    return all;
  }
  void reset() override {}

  std::vector<measure::Workload> loaded;
  std::vector<int64_t> repetitions;
};

TEST(Device, RatesAreWorkByTime) {
  TenMilliseconds executor;
  const TargetInfo target = h100();
  const DeviceRates rates = measure_device(target, {}, executor);
  ASSERT_EQ(rates.levels.size(), 2u);
  EXPECT_EQ(rates.levels[0].name, "L2");
  EXPECT_EQ(rates.levels[1].name, "DRAM");
  EXPECT_EQ(rates.levels[1].read_per_ns, 107) << "1 GiB, three digits";
  EXPECT_EQ(rates.launch_ns, 0) << "no launch takes 10 ms: it is out of its bounds";
  EXPECT_EQ(executor.repetitions.front(), 1) << "one run is long enough";
  const std::vector<ComputeKernel> kernels = compute_kernels(target);
  ASSERT_EQ(rates.peaks.size(), kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const double want = kernels[i].operations / kRunNs;
    EXPECT_NEAR(rates.peaks[i].op_per_ns / want, 1, 0.005) << kernels[i].name << ": the median of all samples";
    const measure::Workload& work = executor.loaded[6 + i];
    ASSERT_EQ(work.steps.size(), 1u);
    EXPECT_EQ(work.steps[0].kernel, kernels[i].name);
    EXPECT_EQ(work.steps[0].tiles, kernels[i].blocks);
  }
}

TEST(Device, EveryTypeHasAPeak) {
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
    std::map<std::string, int> kinds;
    for (const ComputeKernel& kernel : compute_kernels(targets::find_target(name).info)) {
      kinds[(kernel.peak.matrix ? "matrix " : "vector ") + kernel.peak.type] += 1;
      EXPECT_GT(kernel.operations, 1e9) << kernel.name << " is too short to time";
    }
    for (const char* kind : {"matrix f16", "matrix bf16", "matrix tf32", "matrix i8", "matrix f64", "vector f16",
                             "vector bf16", "vector f32", "vector f64"})
      EXPECT_EQ(kinds[kind], 1) << kind;
  }
}

TEST(Device, TextsCompile) {
#ifdef TW_HAVE_CUDA
  if (!codegen::nvrtc_available().ok()) GTEST_SKIP() << "not run: no NVRTC";
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const TargetInfo target = targets::find_target(std::string("cuda:") + architecture).info;
    EXPECT_FALSE(codegen::compile_cubin(device_text(target), architecture).empty()) << architecture;
  }
#else
  GTEST_SKIP() << "not run: a build without CUDA";
#endif
}

TEST(Device, FilesRoundTripAndDamageIsNoticed) {
  DeviceRates rates = targets::data_sheet("", "sm_90a");
  rates.from = "measured on NVIDIA Test";
  rates.launch_ns = 1310;
  const std::string text = device_file_text(plausible(rates), kKey);
  const Result<DeviceRates> read = parse_device_file(text, kKey);
  ASSERT_TRUE(read.ok()) << read.reason();
  EXPECT_EQ(device_file_text(*read, kKey), text);
  EXPECT_FALSE(parse_device_file(text, R"({"device":"another"})").ok());
  EXPECT_FALSE(parse_device_file(text.substr(0, text.size() / 2), kKey).ok());
  DeviceRates wild = rates;
  wild.levels[0].read_per_ns = 1e12;
  EXPECT_FALSE(parse_device_file(device_file_text(wild, kKey), kKey).ok()) << "a rate beyond any machine";
}

TEST(Device, DataSheets) {
  EXPECT_EQ(targets::data_sheet("NVIDIA H200", "sm_90a").levels[0].read_per_ns, 4800);
  EXPECT_EQ(targets::data_sheet("NVIDIA H100 80GB HBM3", "sm_90a").levels[0].read_per_ns, 3350);
  EXPECT_EQ(targets::data_sheet("NVIDIA Unheard Of", "sm_90a").from, "data sheet of NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(targets::data_sheet("NVIDIA Unheard Of", "sm_120").levels.empty());
  EXPECT_EQ(h100().device.from, "data sheet of NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(targets::find_target("cpu:x86-64-v3").info.device.levels.empty());
}

TEST(Device, NobodyLooksForOneWithoutNeed) {
  MachineOptions options;
  options.folder = ::testing::TempDir() + "/no_such_folder";
  for (const Parameters parameters : {Parameters::kDefaults, Parameters::kMeasured}) {
    options.parameters = parameters;
    const Device device = find_device(h100(), options);
    EXPECT_TRUE(device.name.empty());
    EXPECT_EQ(device.rates.from, h100().device.from);
  }
}

}  // namespace
}  // namespace tw::driver::machine
