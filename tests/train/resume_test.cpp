// Trainings that end early: what was saved goes on with the bits of a run that was never interrupted.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "tests/train/api_training.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

namespace fs = std::filesystem;
using test::api;

constexpr int64_t kBatch = 8, kIn = 32, kHidden = 96, kOut = 16;

std::vector<uint8_t> make_artefact() {
  const std::string text = R"(graph net {
  input x : f32[8, 32]
  input w : f32[32, 96]
  input u : f32[96, 16]
  a : f32[8, 96] = matmul(x, w)
  h : f32[8, 96] = relu(a)
  y : f32[8, 16] = matmul(h, u)
  output y
})";
  const Training training = make_training(with_constants(model_of(text, {"w", "u"})), ops::all_ops(),
                                          {Loss::kMeanSquared, {.method = Method::kAdamW, .weight_decay = 0.01}});
  return artefact_of(training);
}

const std::vector<uint8_t>& artefact() {
  static const std::vector<uint8_t> bytes = make_artefact();
  return bytes;
}

// One process's training: batches and rates depend on the number of the step alone.
class Process : ApiTraining {
 public:
  Process() : ApiTraining(artefact()) {}

  // The bits of the loss.
  uint32_t step(int t) {
    std::vector<float> x = batch(kBatch * kIn, t), labels = batch(kBatch * kOut, t + 50);
    float rate = 0.01F / static_cast<float>(1 + t % 4), loss = 0;
    const int64_t x_shape[] = {kBatch, kIn}, labels_shape[] = {kBatch, kOut};
    const DLTensor inputs[] = {tensor(x.data(), x_shape, 2), tensor(labels.data(), labels_shape, 2),
                               tensor(&rate, nullptr, 0)};
    const DLTensor output = tensor(&loss, nullptr, 0);
    EXPECT_OK(api().run_function(context_.get(), 0, inputs, 3, &output, 1));
    return std::bit_cast<uint32_t>(loss);
  }
  test::Outcome save(const fs::path& path) { return api().state_save(state_.get(), path.c_str()); }
  test::Outcome load(const fs::path& path) { return api().state_load(state_.get(), path.c_str()); }
  // How many steps led to the state.
  int steps() {
    for (const auto& [name, own] : elements()) {
      if (name == "step") return static_cast<int>(own.at(0));
    }
    return -1;
  }

 private:
  static std::vector<float> batch(int64_t count, int seed) {
    const std::vector<double> all = numbers(count, seed);
    return {all.begin(), all.end()};
  }
};

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-resume-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    artefact();  // before any fork
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Runs `body` in a process of its own.
  template <typename Body>
  static pid_t start(const Body& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  static int ended(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  fs::path folder_;
};

TEST_F(Resume, AKilledRunGoesOnWithTheSameBits) {
  constexpr int kSteps = 20, kSaved = 10;
  Process undisturbed;
  std::vector<uint32_t> losses;
  for (int t = 0; t < kSteps; ++t) losses.push_back(undisturbed.step(t));
  EXPECT_OK(undisturbed.save(folder_ / "whole"));
  const pid_t child = start([&] {
    Process process;
    for (int t = 0; t < kSaved; ++t) process.step(t);
    EXPECT_OK(process.save(folder_ / "saved"));
    for (int t = kSaved; t < kSaved + 4; ++t) process.step(t);
    kill(getpid(), SIGKILL);
  });
  const int status = ended(child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  Process resumed;
  EXPECT_OK(resumed.load(folder_ / "saved"));
  ASSERT_EQ(resumed.steps(), kSaved);
  for (int t = kSaved; t < kSteps; ++t) EXPECT_EQ(resumed.step(t), losses[static_cast<size_t>(t)]) << "step " << t;
  EXPECT_OK(resumed.save(folder_ / "again"));
  EXPECT_EQ(content(folder_ / "again"), content(folder_ / "whole"));
}

// Whenever the process dies, the file is that of some step, as a whole.
TEST_F(Resume, AProcessKilledWhileSavingLeavesAWholeFile) {
  constexpr int kRounds = 12, kMaxSteps = 400;
  std::vector<std::string> after = {""};  // files, by the number of steps
  Process undisturbed;
  const fs::path saved = folder_ / "saved";
  for (int round = 0; round < kRounds; ++round) {
    fs::remove(saved);
    const pid_t child = start([&] {
      Process process;
      for (int t = 0; t < kMaxSteps; ++t) {
        process.step(t);
        EXPECT_OK(process.save(saved));
      }
      pause();
    });
    while (!fs::exists(saved)) usleep(500);
    usleep(static_cast<useconds_t>(1000 + 1700 * round));
    kill(child, SIGKILL);
    ended(child);
    Process resumed;
    EXPECT_OK(resumed.load(saved));
    const int steps = resumed.steps();
    ASSERT_GE(steps, 1);
    for (auto t = static_cast<int>(after.size()); t <= steps; ++t) {
      undisturbed.step(t - 1);
      EXPECT_OK(undisturbed.save(folder_ / "whole"));
      after.push_back(content(folder_ / "whole"));
    }
    EXPECT_EQ(content(saved), after[static_cast<size_t>(steps)]) << "after step " << steps;
  }
}

TEST_F(Resume, AFullDiskLeavesTheOldFileAndSaysSo) {
  Process process;
  process.step(0);
  const fs::path saved = folder_ / "saved";
  EXPECT_OK(process.save(saved));
  const std::string before = content(saved);
  const pid_t child = start([&] {
    process.step(1);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {before.size() / 2, before.size() / 2};
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_FAILS(process.save(saved), TW_ERROR_DISK_FULL, "saved");
  });
  EXPECT_EQ(ended(child), 0);
  EXPECT_EQ(content(saved), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

}  // namespace
}  // namespace tw::train
