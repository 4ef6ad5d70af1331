// The library: what is built once stays, whole or not at all. nvcc is a script of the tests' own; one test has the real
// one, where it and CUTLASS's headers are found.
#include "templates/library.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "templates/fit.h"
#include "templates/host.h"
#include "tests/harness/fake_nvcc.h"
#include "tests/harness/takes_all.h"

namespace tw::templates::test {
namespace {

namespace fs = std::filesystem;

const Row& row_of(Family family) {
  return *std::ranges::find_if(rows(), [&](const Row& row) { return row.family == family; });
}

class LibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-templates-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    nvcc_.folder = folder_;
    options_.folder = folder_ / "library";
    options_.headers = nvcc_.headers();
    options_.nvcc = nvcc_.path();
    options_.processes = 2;
    compiler("");
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A compiler that does `first` before it writes what it always does.
  void compiler(const std::string& first, const std::string& version = "V13.0.1") {
    nvcc_.write({.first = first, .version = version});
  }
  int64_t runs() const { return nvcc_.runs(); }
  Result<BuiltTemplate> build() {
    Result<BuiltTemplate> made = Reason{"not asked for"};
    came_to_its_end_ = true;
    try {
      TemplateLibrary(options_).build_all({instance_}, [&](size_t, const Result<BuiltTemplate>& b) { made = b; });
    } catch (const ResourceError&) {
      came_to_its_end_ = false;
    }
    return made;
  }
  bool is_clean() const {
    return std::ranges::none_of(fs::directory_iterator(options_.folder), [](const fs::directory_entry& entry) {
      return entry.path().filename().string().starts_with("tmp.");
    });
  }

  // A compiler that says its number and that of a program which it starts, and does not end.
  void compiler_that_hangs() {
    compiler("sleep 100 & echo $$ $! > " + (folder_ / "numbers.new").string() + "; mv " +
             (folder_ / "numbers.new").string() + " " + numbers() + "; wait");
  }
  std::string numbers() const { return (folder_ / "numbers").string(); }
  // Whether nothing runs of what compiler_that_hangs() told, and nothing lies about; waits for it.
  bool has_gone() const {
    std::ifstream file(numbers());
    pid_t compiler = 0, program = 0;
    file >> compiler >> program;
    const auto gone = [](pid_t pid) {  // or its parent has not asked for it yet
      std::string word, state;
      std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> word >> word >> state;
      return pid > 0 && (state.empty() || state == "Z");
    };
    for (int i = 0; i < 100; ++i) {
      if (gone(compiler) && gone(program) && is_clean()) return true;
      usleep(50'000);
    }
    return false;
  }

  bool came_to_its_end_ = true;
  fs::path folder_;
  FakeNvcc nvcc_;
  TemplateOptions options_;
  Instance instance_ = {row_of(Family::kGemmSm90)};
};

TEST_F(LibraryTest, BuildsOnce) {
  EXPECT_FALSE(TemplateLibrary(options_).find(instance_).ok());
  const Result<BuiltTemplate> first = build();
  ASSERT_TRUE(first.ok()) << first.reason();
  EXPECT_EQ(first->registers, 168);
  EXPECT_EQ(first->bytes, 6);
  EXPECT_TRUE(build().ok());
  EXPECT_EQ(runs(), 1);
  EXPECT_TRUE(is_clean());
  instance_.output = DataType::f32();
  EXPECT_FALSE(TemplateLibrary(options_).find(instance_).ok());
}

// The folder may be copied to a machine without a compiler.
// Groups of a model may want the same kernel.
TEST_F(LibraryTest, BuildsATextOnce) {
  Instance other = instance_;
  other.output = DataType::f32();
  std::vector<size_t> made;
  TemplateLibrary(options_).build_all({instance_, other, instance_}, [&](size_t i, const Result<BuiltTemplate>& b) {
    EXPECT_TRUE(b.ok()) << b.reason();
    made.push_back(i);
  });
  std::ranges::sort(made);
  EXPECT_EQ(made, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(runs(), 2);
}

TEST_F(LibraryTest, IsReadWithoutACompiler) {
  ASSERT_TRUE(build().ok());
  fs::rename(options_.folder, folder_ / "copy");
  TemplateOptions elsewhere;
  elsewhere.folder = folder_ / "copy";
  elsewhere.nvcc = "/nowhere/nvcc";
  EXPECT_TRUE(TemplateLibrary(elsewhere).find(instance_).ok());
  EXPECT_FALSE(TemplateLibrary(elsewhere).can_build());
  EXPECT_TRUE(TemplateLibrary(options_).can_build());
}

TEST_F(LibraryTest, TakesNothingThatIsDamaged) {
  const Result<BuiltTemplate> built = build();
  ASSERT_TRUE(built.ok()) << built.reason();
  std::ofstream(built->host) << "prog";
  const Result<BuiltTemplate> damaged = TemplateLibrary(options_).find(instance_);
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.reason().find("damaged"), std::string::npos);
  EXPECT_TRUE(build().ok());
  EXPECT_EQ(runs(), 2);
  for (const char* about : {R"({"cubin": 5})", R"({"cubin": null, "host": []})", "[", "{}"}) {
    std::ofstream(built->cubin.substr(0, built->cubin.rfind('/')) + "/about.json") << about;
    EXPECT_FALSE(TemplateLibrary(options_).find(instance_).ok()) << about;
  }
}

// What was compiled with another library is not what this one gives.
TEST_F(LibraryTest, HasARevisionThatFollowsWhatItHolds) {
  const std::string none = library_revision(options_.folder);
  ASSERT_TRUE(build().ok());
  const std::string one = library_revision(options_.folder);
  EXPECT_NE(one, none);
  EXPECT_EQ(library_revision(options_.folder), one);
  instance_.output = DataType::f32();
  ASSERT_TRUE(build().ok());
  EXPECT_NE(library_revision(options_.folder), one);
}

TEST_F(LibraryTest, KeepsNothingOfAFailure) {
  compiler("echo 'kernel.cu(3): error: no such thing'; exit 2");
  const Result<BuiltTemplate> failed = build();
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.reason().find("error: no such thing"), std::string::npos) << failed.reason();
  EXPECT_TRUE(came_to_its_end_) << "it refuses the text";
  EXPECT_TRUE(is_clean());
  EXPECT_TRUE(fs::is_empty(options_.folder));
}

// Which says nothing of the text.
TEST_F(LibraryTest, ACompilerThatIsKilledOrShortOfSomethingRefusesNothing) {
  for (const char* what : {"kill -9 $$", "echo \"nvcc error : 'cicc' died due to signal 9 (Kill signal)\"; exit 9",
                           "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1",
                           "echo 'error: virtual memory exhausted: Cannot allocate memory'; exit 1",
                           "echo 'fatal error: error writing to x: No space left on device'; exit 1", "exit 1"}) {
    compiler(what);
    EXPECT_FALSE(build().ok()) << what;
    EXPECT_FALSE(came_to_its_end_) << what;
    EXPECT_TRUE(is_clean());
  }
  compiler("kill -9 $$");
  EXPECT_NE(build().reason().find("signal 9 (Killed)"), std::string::npos);
}

TEST_F(LibraryTest, OthersAreBuiltAllTheSame) {
  compiler("grep -q 'echo once' " + (folder_ / "runs").string() + " || { echo echo once >> " +
           (folder_ / "runs").string() + "; kill -9 $$; }");
  std::vector<Instance> instances;
  for (const EpilogueClass& e : epilogue_classes(DataType::f16()))
    instances.push_back({row_of(Family::kGemmSm90), DataType::f16(), e.output, true, true, e.epilogue});
  options_.processes = 1;
  size_t built = 0, failed = 0;
  const auto count = [&](size_t, const Result<BuiltTemplate>& b) { ++(b.ok() ? built : failed); };
  EXPECT_THROW(TemplateLibrary(options_).build_all(instances, count), ResourceError);
  EXPECT_EQ(failed, 1U);
  EXPECT_EQ(built, instances.size() - 1);
}

TEST_F(LibraryTest, EndsACompilerThatIsWantedNoMoreWithAllThatItStarted) {
  compiler_that_hangs();
  options_.stop = [this] { return fs::exists(numbers()); };
  EXPECT_NE(build().reason().find("stopped"), std::string::npos);
  EXPECT_FALSE(came_to_its_end_);
  EXPECT_TRUE(has_gone());
}

// Whatever ends the process that started it: Ctrl-C outside of measuring, or a system without memory.
TEST_F(LibraryTest, NoCompilerOutlivesTheProcess) {
  compiler_that_hangs();
  const pid_t process = fork();
  if (process == 0) {
    (void)build();
    _exit(0);
  }
  for (int i = 0; i < 100 && !fs::exists(numbers()); ++i) usleep(50'000);
  EXPECT_FALSE(is_clean());
  kill(process, SIGKILL);
  EXPECT_EQ(waitpid(process, nullptr, 0), process);
  EXPECT_TRUE(has_gone());
}

TEST_F(LibraryTest, RefusesKernelsThatWouldBeSlow) {
  compiler("echo '0 bytes stack frame, 948 bytes spill stores, 900 bytes spill loads'");
  EXPECT_NE(build().reason().find("948 bytes of registers are spilled"), std::string::npos);
  compiler("echo 'ptxas info : (C7510) wgmma.mma_async instructions are serialized'");
  EXPECT_NE(build().reason().find("C7510"), std::string::npos);
  compiler("echo '0 bytes stack frame, 64 bytes spill stores, 64 bytes spill loads'");
  EXPECT_TRUE(build().ok());
}

TEST_F(LibraryTest, EndsACompilerThatHangs) {
  compiler("exec sleep 100");
  options_.seconds = 0.3;
  const Result<BuiltTemplate> hanging = build();
  ASSERT_FALSE(hanging.ok());
  EXPECT_NE(hanging.reason().find("0.3 s"), std::string::npos) << hanging.reason();
  EXPECT_FALSE(came_to_its_end_);
  EXPECT_TRUE(is_clean());
}

TEST_F(LibraryTest, GoesOnWhereItWasAndFollowsTheToolchain) {
  std::vector<Instance> instances;
  for (const EpilogueClass& e : epilogue_classes(DataType::f16()))
    instances.push_back({row_of(Family::kGemmSm90), DataType::f16(), e.output, true, true, e.epilogue});
  int64_t done = 0;
  const auto count = [&](size_t, const Result<BuiltTemplate>& built) { done += built.ok() ? 1 : 0; };
  instance_ = instances[2];
  ASSERT_TRUE(build().ok());
  TemplateLibrary(options_).build_all(instances, count);
  EXPECT_EQ(done, 5);
  EXPECT_EQ(runs(), 5);
  compiler("", "V13.1.0");
  TemplateLibrary(options_).build_all(instances, count);
  EXPECT_EQ(runs(), 10);
}

TEST_F(LibraryTest, SaysWhatIsMissing) {
  const auto message = [&] {
    try {
      EXPECT_FALSE(build().ok());
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  options_.headers = folder_;
  EXPECT_NE(message().find("holds no cutlass/cutlass.h"), std::string::npos);
  options_.headers = folder_ / "headers";
  options_.nvcc = "/nowhere/nvcc";
  EXPECT_NE(message().find("/nowhere/nvcc"), std::string::npos);
  options_.nvcc = folder_ / "nvcc";
  options_.headers = std::string(5000, 'h');  // no path at all
  EXPECT_FALSE(TemplateLibrary(options_).can_build());
  options_.folder.clear();  // not the current folder
  EXPECT_NE(TemplateLibrary(options_).find(instance_).reason().find("TILEWRIGHT_CACHE_DIR"), std::string::npos);
}

// Ctrl-C keeps the best so far (SA_RESTART starts no poll() again): an answer that comes later is no failure of a row.
TEST_F(LibraryTest, WaitsForAnAnswerThroughSignals) {
  const fs::path program = folder_ / "host";
  std::ofstream(program) << "#!/bin/sh\nread line\nsleep 0.2\nprintf 'refused no\\nend\\n' >&0\n";
  chmod(program.c_str(), 0755);
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  Result<HostProgram> started = HostProgram::start(program);
  ASSERT_TRUE(started.ok()) << started.reason();
  ualarm(20000, 20000);
  const Result<std::string> answer = std::move(started).value().ask("1\n");
  ualarm(0, 0);
  sigaction(SIGALRM, &before, nullptr);
  ASSERT_TRUE(answer.ok()) << answer.reason();
  EXPECT_EQ(*answer, "refused no\nend\n");
}

// Of each family one row (of two families, where a sample is enough), with an epilogue that has all that there is.
TEST_F(LibraryTest, BuildsOneRowOfEachFamilyForReal) {
  const char* wanted = std::getenv("TW_TEST_NVCC");
  if (wanted == nullptr) GTEST_SKIP() << "not run: set TW_TEST_NVCC to nvcc's path, after scripts/fetch_cutlass.sh";
  options_.nvcc = wanted;
  options_.headers = "";
  options_.processes = 1;
  std::vector<Row> tried;
  for (const Family family : {Family::kGemmSm80, Family::kConvSm80, Family::kGemmSm90, Family::kConvSm90})
    tried.push_back(row_of(family));
  tried.push_back(*std::ranges::find(rows(), true, &Row::stream_k));
  if (!testing::takes_all()) tried = {tried.front(), tried.at(3)};  // nvcc takes a minute for each
  for (const Row& row : tried) {
    const Family family = row.family;
    instance_ = {row};
    instance_.epilogue = epilogue_classes(DataType::f16()).at(3).epilogue;
    const Result<BuiltTemplate> built = build();
    ASSERT_TRUE(built.ok()) << name_of(instance_.row) << ": " << built.reason();
    GemmDescriptor p;
    p.m = 2 * 32 * 32, p.n = 128, p.k = row.stream_k ? 2048 : 64;
    p.is_conv = is_conv(family);
    p.images = 2, p.image = p.out = {32, 32, 1}, p.channels = 64;
    Result<HostProgram> started = HostProgram::start(built->host);
    ASSERT_TRUE(started.ok()) << name_of(instance_.row) << ": " << started.reason();
    HostProgram host = std::move(started).value();
    const Result<Launch> launch =
        find_launch(instance_, p, 132, [&](const std::string& line) { return host.ask(line); });
    ASSERT_TRUE(launch.ok()) << name_of(instance_.row) << ": " << launch.reason();
    EXPECT_GT(launch->step.grid[1] * launch->step.grid[0], 1);
    EXPECT_GE(launch->step.relocations.size() + launch->step.tensor_maps.size(), 5U) << name_of(instance_.row);
    EXPECT_EQ(launch->workspace_bytes > 0, row.stream_k);
    EXPECT_EQ(launch->zero_bytes, row.stream_k ? 128 : 0) << "barriers of warp groups, for up to 16 tiles";
    for (const format::Relocation& r : launch->step.relocations)
      EXPECT_LT(r.buffer, row.stream_k ? 6 : 5) << "memory of no operand";
    const auto has_windows = [](const format::TensorMap& map) { return !map.windows.empty(); };
    const int64_t windows = family == Family::kConvSm90 ? 3 : 0;  // of the image, the residual and the result
    EXPECT_EQ(std::ranges::count_if(launch->step.tensor_maps, has_windows), windows);
  }
}

}  // namespace
}  // namespace tw::templates::test
