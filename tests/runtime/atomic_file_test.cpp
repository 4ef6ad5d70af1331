// Atomic writes: the new bytes, or the old ones and no temporary file.
#include "runtime/format/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/format/error.h"

namespace tw {
namespace {

using format::Bytes;
using format::Error;
using format::ErrorCode;
namespace fs = std::filesystem;

class AtomicFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-atomic-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string path() const { return (directory_ / "out.tw").string(); }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), {})); }

  static void write(const std::string& path, const std::string& text) {
    format::write_file_atomically(path, [&](const format::PutBytes& put) {
      for (size_t i = text.size(); i-- > 0;) put(i, format::bytes_of(text).subspan(i, 1));
    });
  }
  static ErrorCode code_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode{};
  }

  fs::path directory_;
};

TEST_F(AtomicFile, WritesAndReplaces) {
  write(path(), "first");
  EXPECT_EQ(content(), "first");
  write(path(), "second");
  EXPECT_EQ(content(), "second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, WhatIsNotWrittenIsZeros) {
  format::write_file_atomically(path(), [](const format::PutBytes& put) {
    put(9, format::bytes_of(std::string("end")));
    put(0, format::bytes_of(std::string("begin")));
  });
  EXPECT_EQ(content(), std::string("begin\0\0\0\0end", 12));
}

TEST_F(AtomicFile, AnErrorOfTheProducerKeepsTheOldFile) {
  write(path(), "old");
  EXPECT_THROW(format::write_file_atomically(path(),
                                             [](const format::PutBytes& put) {
                                               put(0, Bytes());
                                               throw std::runtime_error("stop");
                                             }),
               std::runtime_error);
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, WrongTargetsAreRefused) {
  EXPECT_EQ(code_of([&] { write((directory_ / "no" / "out.tw").string(), "x"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { write(directory_.string(), "x"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { write(directory_.string() + "/", "x"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { write("/dev/full", "x"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(files(), 0u);
}

TEST_F(AtomicFile, AFullDiskIsItsOwnErrorAndLeavesTheOldFile) {
  write(path(), "old");
  const pid_t child = fork();
  if (child == 0) {
    // The process's file size limit stands in for the disk: the system call fails in the same way.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(static_cast<int>(code_of([&] { write(path(), std::string(2000, 'x')); })));
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ErrorCode::kDiskFull));
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, KilledWritersLeaveTheOldFileOrTheNew) {
  const std::string old_text(20000, 'o'), new_text(20000, 'n');
  for (int i = 0; i < 20; ++i) {
    write(path(), old_text);
    const pid_t child = fork();
    if (child == 0) {
      while (true) write(path(), new_text);
    }
    usleep(static_cast<useconds_t>(500 * i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string now = content();
    EXPECT_TRUE(now == old_text || now == new_text) << now.size();
  }
}

TEST_F(AtomicFile, WhatKilledWritersLeftIsRemovedByTheNextOne) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const auto leave = [&](const std::string& name, int minutes_ago) {
    std::ofstream(directory_ / name) << "half";
    fs::last_write_time(directory_ / name, fs::file_time_type::clock::now() - std::chrono::minutes(minutes_ago));
    return directory_ / name;
  };
  const std::string of_dead = std::to_string(dead), of_ours = std::to_string(getpid());
  const fs::path abandoned = leave(".out.tw.tmp." + of_dead + ".0", 11);
  const fs::path other = leave(".plan.twp.tmp." + of_dead + ".12", 11);
  const std::vector<fs::path> kept = {
      leave(".out.tw.tmp." + of_ours + ".99", 11), leave(".out.tw.tmp." + of_dead + ".1", 0),
      leave("out.tw.tmp." + of_dead + ".0", 11),   leave(".out.tw.tmp." + of_dead + ".0x", 11),
      leave(".out.tw.tmp." + of_dead, 11),         leave(".out.tw.tmp.-" + of_dead + ".0", 11)};
  fs::create_directory(directory_ / (".d.tmp." + of_dead + ".0"));
  format::write_file_atomically(path(), format::bytes_of(std::string("new")), format::Durability::kCached);
  EXPECT_TRUE(fs::exists(abandoned)) << "caches are looked through when they are pruned";
  write(path(), "new");
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_FALSE(fs::exists(other));
  for (const fs::path& file : kept) EXPECT_TRUE(fs::exists(file)) << file;
  EXPECT_EQ(format::remove_abandoned_files(directory_.string()), 0);
  EXPECT_EQ(format::remove_abandoned_files((directory_ / "missing").string()), 0);
}

}  // namespace
}  // namespace tw
