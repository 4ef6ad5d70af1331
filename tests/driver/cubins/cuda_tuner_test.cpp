// Choosing among candidates for a GPU, up to the worker: what is compiled, how often, and what a worker would get.
// NVRTC and the measurer are the tests' own.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/tune/tuner.h"
#include "targets/registry.h"
#include "tests/driver/cubins/zero_run.h"
#include "tests/harness/te_programs.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;
using measure::Measured;
using measure::Outcome;

// Notes the workloads; the last candidate is the fastest one.
class NotingMeasurer : public measure::Measurer {
 public:
  explicit NotingMeasurer(std::vector<measure::Workload>& noted) : noted_(noted) {}
  std::vector<Measured> measure(std::span<const measure::Workload> work,
                                const measure::MeasureOptions& options) override {
    noted_.assign(work.begin(), work.end());
    rotate_bytes = options.rotate_bytes;
    std::vector<Measured> out;
    for (size_t i = 0; i < work.size(); ++i) {
      const double ns = 1000.0 * static_cast<double>(work.size() - i);
      out.push_back({Outcome::kMeasured, "", {ns, ns, 12, 1}});
    }
    return out;
  }
  measure::RunOnce run(const measure::Workload& work, int) override { return zero_run(work); }
  static inline double rotate_bytes = 0;

 private:
  std::vector<measure::Workload>& noted_;
};

class CudaTunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-cuda-tuner-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("TW_NVRTC", TW_FAKE_NVRTC, 1);
    setenv("TW_FAKE_NVRTC_LOG", (folder_ / "log").c_str(), 1);
    cubin_options_.worker = {TW_CUBIN_WORKER};
    cubin_options_.folder = (folder_ / "cache").string();
    group_.lower.lower.vector_bytes = target_.info.vector_bytes;
    options_.light_us = 0;
    options_.notice = [this](const std::string& text) { notices_.push_back(text); };
  }
  void TearDown() override { fs::remove_all(folder_); }

  TuneTask task() const {
    TuneTask out;
    out.name = "matmul";
    out.program = testing::matmul_relu(96, 160, 128);
    out.constants = {"w", "bias"};
    for (const char* family : {"contraction", "point"}) {
      for (const construct::Constructor& c : target_.families) {
        if (c.family != family) continue;
        const construct::Candidates built = *c.construct({out.program, out.constants}, target_.info);
        out.candidates.push_back({"matmul", family, built[0].constant_layouts, built[0].schedule, 0, {}, 0});
      }
    }
    return out;
  }
  TuneResult choose(const TuneTask& task, Tuner& tuner) {
    Cubins cubins(cubin_options_);
    return tuner.choose({&task, 1}, {target_.info, group_, {2, cubins}, measure::CacheState::kCold, {}})[0];
  }
  // Texts that went to NVRTC, by something that each has once.
  int64_t compiled() const {
    const std::string mark = "inline T tw_min(T a, T b)";
    std::ifstream file(folder_ / "log");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    int64_t count = 0;
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) ++count;
    return count;
  }

  fs::path folder_;
  targets::Target target_ = targets::find_target("cuda:sm_90a");
  GroupOptions group_;
  CubinOptions cubin_options_;
  TunerOptions options_;
  std::vector<std::string> notices_;
  std::vector<measure::Workload> noted_;
};

TEST_F(CudaTunerTest, CandidatesAreCubinsWithTheirLaunches) {
  TuneTask t = task();
  ASSERT_EQ(t.candidates.size(), 2U);
  t.candidates.push_back(t.candidates[0]);  // once more the same: compiled and measured once
  Tuner tuner(options_, std::make_unique<NotingMeasurer>(noted_));
  const TuneResult result = choose(t, tuner);
  EXPECT_TRUE(notices_.empty()) << notices_[0];
  EXPECT_EQ(result.best, 1);
  ASSERT_EQ(noted_.size(), 2U);
  EXPECT_EQ(compiled(), 3);  // with the reference
  for (const measure::Workload& w : noted_) {
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(w.code.data()), 8), "cubin of");
    for (const measure::WorkStep& step : w.steps) {
      EXPECT_TRUE(step.kernel.starts_with("tw_matmul")) << step.kernel;
      EXPECT_GE(step.cuda.threads, 32);
      EXPECT_GT(step.tiles, 0);
    }
    const auto cold = [](const measure::BufferSpec& b) { return b.cache_state == measure::CacheState::kCold; };
    EXPECT_EQ(std::ranges::count_if(w.buffers, cold), 2);  // the constants
  }
  const double l2 = 50.0 * 1024 * 1024;
  EXPECT_GT(NotingMeasurer::rotate_bytes, 2 * l2);
  EXPECT_LT(NotingMeasurer::rotate_bytes, 4 * l2);
  choose(t, tuner);
  EXPECT_EQ(compiled(), 3);  // all of it was in the cache
  const loop::Program best = lower_group(t.program, t.candidates[result.best], group_);
  EXPECT_NE(tuner.find_code(best, "matmul"), nullptr);
  EXPECT_EQ(tuner.find_code(best, "another matmul"), nullptr) << "its kernel has the first one's name";
}

// Ctrl-C and the end of the budget: nothing is waited for, nothing said of what was being compiled.
TEST_F(CudaTunerTest, WhatIsBeingCompiledEndsWithTheSearch) {
  const TuneTask t = task();
  setenv("TW_FAKE_NVRTC_HANG", "__shared__", 1);
  options_.database = (folder_ / "tuning.db").string();
  for (const bool budget : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    options_.interrupted = [&] { return !budget && elapsed() > 0.5; };
    options_.budget_seconds = budget ? 0.5 : 0;
    Tuner tuner(options_, std::make_unique<NotingMeasurer>(noted_));
    const TuneResult result = choose(t, tuner);
    EXPECT_LT(elapsed(), 20) << "NVRTC has 120 s";
    EXPECT_FALSE(tuner.complete());
    EXPECT_EQ(result.best, 0);
    EXPECT_TRUE(result.measured.empty());
  }
  unsetenv("TW_FAKE_NVRTC_HANG");
  options_.interrupted = {};
  options_.budget_seconds = 0;
  Tuner tuner(options_, std::make_unique<NotingMeasurer>(noted_));
  EXPECT_EQ(choose(t, tuner).measured.size(), 2U) << "the database knows of no refusal";
  EXPECT_EQ(noted_.size(), 2U);
}

TEST_F(CudaTunerTest, ACandidateThatNvrtcRejectsIsRefused) {
  const TuneTask t = task();
  setenv("TW_FAKE_NVRTC_REJECT", "__shared__", 1);  // that the other one, and the reference, do without
  Tuner tuner(options_, std::make_unique<NotingMeasurer>(noted_));
  const TuneResult result = choose(t, tuner);
  unsetenv("TW_FAKE_NVRTC_REJECT");
  EXPECT_EQ(outcome_name(result.measured.at(0).outcome), "refused");
  EXPECT_NE(result.measured[0].reason.find("kernel 'matmul' for sm_90a"), std::string::npos)
      << result.measured[0].reason;
  EXPECT_EQ(result.best, 1);
  EXPECT_EQ(noted_.size(), 1U);
}

TEST_F(CudaTunerTest, WithoutAGpuNothingIsMeasuredAndItSaysWhy) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  options_.worker = {"/does/not/exist"};
  Tuner tuner(options_);
  const TuneResult result = choose(task(), tuner);
  EXPECT_TRUE(result.measured.empty());
  EXPECT_FALSE(tuner.complete());
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_TRUE(notices_[0].starts_with("nothing is measured: this machine does not run code for cuda:sm_90a: "))
      << notices_[0];
}

}  // namespace
}  // namespace tw::driver::test
