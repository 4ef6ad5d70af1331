// Locks by files: who waits is told for whom, waiting ends, and a file system without locks locks nobody out.
#include "support/file_lock.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

namespace {

int refusal = 0;  // what flock() fails with, as some file systems make it fail; 0: it is the system's

}  // namespace

extern "C" int flock(int fd, int operation) noexcept {
  if (refusal == 0) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = refusal;
  return -1;
}

namespace tw {
namespace {

namespace fs = std::filesystem;

class FileLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-lock-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    refusal = 0;
    fs::remove_all(folder_);
  }
  std::string path() const { return (folder_ / "a.lock").string(); }
  LockWait wait(double seconds) {
    return {seconds, {}, [this](const std::string& sentence) { notices_.push_back(sentence); }};
  }

  fs::path folder_;
  std::vector<std::string> notices_;
};

TEST_F(FileLockTest, OneAtATime) {
  {
    const FileLock first(path(), wait(0));
    EXPECT_TRUE(first.is_held());
    const FileLock second(path(), wait(0.1));
    EXPECT_FALSE(second.is_held());
    EXPECT_TRUE(second.has_file());
  }
  EXPECT_TRUE(FileLock(path(), wait(0)).is_held());
  EXPECT_TRUE(notices_.empty()) << "a short wait is not worth a word";
}

TEST_F(FileLockTest, ALongWaitSaysWhoHoldsWhichFileAndEnds) {
  const FileLock first(path(), wait(0));
  const auto start = std::chrono::steady_clock::now();
  const FileLock second(path(), wait(0.8));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_FALSE(second.is_held());
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_NE(notices_[0].find("up to 0.8 s"), std::string::npos) << notices_[0];
  EXPECT_NE(notices_[0].find(path()), std::string::npos) << notices_[0];
  EXPECT_NE(notices_[0].find("process"), std::string::npos) << notices_[0];
}

TEST_F(FileLockTest, TheHolderIsNamed) {
  const FileLock first(path(), wait(0));
  const FileLock second(path(), wait(0));
  const std::string holder = second.holder();
  // Overlays and namespaces may hide it.
  if (holder == "another process") GTEST_SKIP() << "the system does not say who holds a lock";
  EXPECT_NE(holder.find("process " + std::to_string(getpid()) + " ("), std::string::npos) << holder;
}

TEST_F(FileLockTest, WaitingStopsWhenItIsToldTo) {
  const FileLock first(path(), wait(0));
  int asked = 0;
  const FileLock second(path(), {60, [&] { return ++asked > 2; }, {}});
  EXPECT_FALSE(second.is_held());
  EXPECT_EQ(asked, 3);
}

TEST_F(FileLockTest, WithoutLocksInTheFileSystemNobodyWaits) {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    refusal = error;
    const auto start = std::chrono::steady_clock::now();
    const FileLock lock(path(), wait(60));
    EXPECT_TRUE(lock.is_held()) << error;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
  EXPECT_TRUE(notices_.empty());
}

TEST_F(FileLockTest, WithoutAFileThereIsNoLock) {
  const FileLock none("", wait(60));
  EXPECT_TRUE(none.is_held());
  EXPECT_FALSE(none.has_file());
  const FileLock missing((folder_ / "no" / "a.lock").string(), wait(60));
  EXPECT_FALSE(missing.is_held());
  EXPECT_FALSE(missing.has_file());
}

}  // namespace
}  // namespace tw
