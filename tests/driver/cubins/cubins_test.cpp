// GPU kernels through worker processes: several at once, kept in the cache, and what happens when NVRTC misbehaves.
// NVRTC is a library of the tests' own (fake/nvrtc.cpp).
#include "driver/code/cubins.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/compile_cache.h"
#include "support/error.h"
#include "support/parallel.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

class CubinsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-cubins-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    log_ = (folder_ / "log").string();
    setenv("TW_NVRTC", TW_FAKE_NVRTC, 1);
    setenv("TW_FAKE_NVRTC_LOG", log_.c_str(), 1);
    options_.worker = {TW_CUBIN_WORKER};
    options_.folder = (folder_ / "cache").string();
    options_.notice = [this](const std::string& text) { notices_.push_back(text); };
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string text(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // What a fresh compiler gets.
  std::string get(const std::string& source, const std::string& architecture = "sm_90a") const {
    return text(Cubins(options_).get("conv1", source, architecture));
  }
  // The message of an Error that getting `source` throws.
  template <typename Error>
  std::string failure(const std::string& source) const {
    try {
      get(source);
    } catch (const Error& error) {
      return error.what();
    }
    return "no such error";
  }
  // Texts that went to NVRTC.
  int64_t compiled() const {
    std::ifstream file(log_);
    int64_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  fs::path cached() const {
    for (const fs::directory_entry& file : fs::directory_iterator(options_.folder)) return file.path();
    return {};
  }

  fs::path folder_;
  std::string log_;
  CubinOptions options_;
  std::vector<std::string> notices_;
};

TEST_F(CubinsTest, CompilesOnceAndKeepsTheCubin) {
  EXPECT_EQ(get("a"), "cubin of a");
  EXPECT_EQ(get("a"), "cubin of a");
  EXPECT_EQ(compiled(), 1);
  EXPECT_EQ(get("b"), "cubin of b");
  const std::string fatbin = get("a", "sm_80");  // other options, another cubin, beside its PTX
  EXPECT_NE(fatbin.find("cubin of a"), std::string::npos);
  EXPECT_NE(fatbin.find(".version 9.0"), std::string::npos);
  EXPECT_EQ(get("a", "sm_80"), fatbin);
  EXPECT_EQ(compiled(), 3);
}

TEST_F(CubinsTest, ADamagedFileIsCompiledAnew) {
  get("a");
  for (const std::string& damage : {std::string("cut"), std::string(80, 'x'), std::string()}) {
    std::ofstream(cached(), std::ios::binary) << damage;
    EXPECT_EQ(get("a"), "cubin of a");
  }
  EXPECT_EQ(compiled(), 4);
  EXPECT_GE(notices_.size(), 2U);
  EXPECT_EQ(get("a"), "cubin of a");
  EXPECT_EQ(compiled(), 4);
}

TEST_F(CubinsTest, OneFlippedBitIsSeen) {
  get("a");
  std::fstream file(cached(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('b');
  file.close();
  EXPECT_EQ(get("a"), "cubin of a");
  EXPECT_EQ(compiled(), 2);
}

TEST_F(CubinsTest, ACacheThatCannotBeWrittenIsNoError) {
  std::ofstream(options_.folder) << "a file in the way";
  Cubins cubins(options_);
  EXPECT_EQ(text(cubins.get("conv1", "a", "sm_90a")), "cubin of a");
  EXPECT_EQ(text(cubins.get("conv1", "b", "sm_90a")), "cubin of b");
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_TRUE(notices_[0].starts_with("kernels are not cached: ")) << notices_[0];
}

TEST_F(CubinsTest, TheCacheCountsAndRemovesKernels) {
  get("a");
  get("b");
  const CompileCache cache(CacheOptions{options_.folder, int64_t{1} << 30, {}});
  EXPECT_EQ(cache.status().kernels, 2);
  EXPECT_EQ(cache.status().entries, 0);
  EXPECT_EQ(cache.prune(0), 2);
  EXPECT_EQ(cache.status().kernels, 0);
}

TEST_F(CubinsTest, WhatNvrtcRejectsNamesTheKernel) {
  EXPECT_EQ(failure<InternalError>("wrong").substr(0, 26), "kernel 'conv1' for sm_90a:");
  EXPECT_NE(failure<InternalError>("wrong").find("line 7: wrong"), std::string::npos);
}

TEST_F(CubinsTest, ACrashNamesTheKernelAndTheNextOneCompiles) {
  EXPECT_EQ(failure<InternalError>("crash"),
            "kernel 'conv1' for sm_90a: NVRTC crashed: signal 11 (Segmentation fault)");
  Cubins cubins(options_);
  EXPECT_THROW(cubins.get("conv1", "crash", "sm_90a"), InternalError);
  EXPECT_EQ(text(cubins.get("conv2", "a", "sm_90a")), "cubin of a");
}

TEST_F(CubinsTest, AHangEnds) {
  options_.seconds = 0.2;
  EXPECT_EQ(failure<InternalError>("hang"), "kernel 'conv1' for sm_90a: NVRTC gave nothing within 0.2 s");
}

TEST_F(CubinsTest, WhatNobodyWantsAnyMoreEndsAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Cubins cubins(options_);
  cubins.stop_when([&] { return elapsed() > 0.3; });
  EXPECT_THROW(cubins.get("conv1", "hang", "sm_90a"), Stopped);
  EXPECT_LT(elapsed(), 5);
  EXPECT_THROW(cubins.get("conv1", "a", "sm_90a"), Stopped);
  EXPECT_EQ(compiled(), 1);
  cubins.stop_when({});
  EXPECT_EQ(text(cubins.get("conv1", "a", "sm_90a")), "cubin of a");
}

TEST_F(CubinsTest, WhatTheSystemKillsIsTriedOnceMore) {
  EXPECT_EQ(get("kill once"), "cubin of kill once");
  EXPECT_NE(failure<ResourceError>("kill always").find("is there memory enough?"), std::string::npos);
  EXPECT_EQ(compiled(), 4);
}

// Which says nothing of the text: no InternalError, for which candidates are refused for good.
TEST_F(CubinsTest, WhoeverEndsNvrtcAndAShortageOfMemoryRefuseNothing) {
  EXPECT_NE(failure<ResourceError>("end").find("NVRTC was killed: signal 15 (Terminated)"), std::string::npos);
  EXPECT_NE(failure<ResourceError>("out of memory").find("NVRTC is out of memory"), std::string::npos);
  EXPECT_EQ(compiled(), 4);
}

TEST_F(CubinsTest, AWorkerThatIsNoneSaysSo) {
  options_.worker = {"/bin/false"};
  EXPECT_NE(failure<ResourceError>("a").find("'/bin/false' is no worker that compiles kernels: exit code 1"),
            std::string::npos);
  options_.worker = {"/does/not/exist"};
  EXPECT_NE(failure<ResourceError>("a").find("cannot start"), std::string::npos);
}

TEST_F(CubinsTest, SeveralCompileAtTheSameTime) {
  options_.processes = 4;
  Cubins cubins(options_);
  const auto start = std::chrono::steady_clock::now();
  parallel_for(8, 8, [&](size_t i) { cubins.get("conv1", "sleep " + std::to_string(i), "sm_90a"); });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(compiled(), 8);
  EXPECT_GE(elapsed.count(), 0.6);  // eight of 0.3 s by four
  EXPECT_LT(elapsed.count(), 1.8);  // one after the other they take 2.4
}

TEST_F(CubinsTest, WithoutAWorkerItIsThisProcess) {
  options_.worker.clear();
  EXPECT_EQ(get("a"), "cubin of a");
  EXPECT_NE(failure<InternalError>("wrong").find("line 7: wrong"), std::string::npos);
}

}  // namespace
}  // namespace tw::driver::test
