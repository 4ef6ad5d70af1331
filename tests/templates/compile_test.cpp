// nvcc takes every row's kernel, with an epilogue that has all that there is; nothing is linked or kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/hash.h"
#include "templates/fit.h"
#include "tests/harness/takes_all.h"

namespace tw::templates::test {
namespace {

namespace fs = std::filesystem;

Instance instance_of(const Row& row) {
  Instance instance{row};
  instance.epilogue = epilogue_classes(DataType::f16()).at(3).epilogue;
  instance.architecture = architecture_of(row.family);
  return instance;
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What nvcc says of a text, and its exit status as a shell has it.
std::pair<int, std::string> compile(const std::string& nvcc, const Instance& instance, const fs::path& folder) {
  const fs::path text = folder / "kernel.cu", log = folder / "log";
  std::ofstream(text) << source_of(instance);
  std::string command = "'" + nvcc + "'";
  for (const std::string& option : compiler_options(instance)) command += " '" + option + "'";
  command += " -I '" TW_THIRD_PARTY_DIR "/cutlass/include' -fatbin -o '" + (folder / "fatbin").string() + "' '" +
             text.string() + "' > '" + log.string() + "' 2>&1";
  const int status = std::system(command.c_str());
  return {status, text_of(log)};
}

class EveryRow : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-row-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// Those of 208 columns spill, which only building them refuses.
TEST_P(EveryRow, Compiles) {
  const char* nvcc = std::getenv("TW_TEST_NVCC");
  constexpr size_t kSampled = 6;  // nvcc takes most of a minute for one
  if (!testing::takes_all() && GetParam() % kSampled != 0)
    GTEST_SKIP() << "not run: every sixth row is a sample; set TW_TEST_ALL for all of them";
  if (nvcc == nullptr) GTEST_SKIP() << "not run: set TW_TEST_NVCC to nvcc's path, after scripts/fetch_cutlass.sh";
  const Instance instance = instance_of(rows()[GetParam()]);
  // What this compiler took before, with these headers, is not compiled again.
  const char* kept = std::getenv("TW_TEST_COMPILED");
  const auto written = fs::last_write_time(nvcc).time_since_epoch().count();
  const std::string key =
      content_hash(nvcc + std::to_string(written) + text_of(TW_THIRD_PARTY_DIR "/cutlass/stamp") + source_of(instance))
          .substr(0, 32);
  if (kept != nullptr && fs::exists(fs::path(kept) / key)) return;
  const auto [status, said] = compile(nvcc, instance, folder_);
  ASSERT_EQ(status, 0) << name_of(instance.row) << ": " << said.substr(0, 2000);
  for (const char* serialized : {"C7509", "C7510"}) EXPECT_EQ(said.find(serialized), std::string::npos) << said;
  if (kept != nullptr && !HasFailure()) std::ofstream(fs::path(kept) / key) << name_of(instance.row) << "\n";
}

INSTANTIATE_TEST_SUITE_P(Templates, EveryRow, ::testing::Range(size_t{0}, rows().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) { return name_of(rows()[info.param]); });

}  // namespace
}  // namespace tw::templates::test
