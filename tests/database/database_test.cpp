// Tuning records: what is stored is found, and whatever happens to the file, nobody's compilation fails for it.
#include "database/database.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "support/file_lock.h"

namespace tw::database {
namespace {

namespace fs = std::filesystem;

class DatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-database-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "deep" / "tuning.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Database> open() {
    return Database::open(path_, [this](const std::string& text) { notices_.push_back(text); });
  }

  fs::path folder_;
  std::string path_;
  std::vector<std::string> notices_;
};

Record record(const std::string& schedule, double best_us) {
  return {"contraction", "x1 split(0, 2)\n", schedule, 10.5, "measured", "", best_us, best_us + 1, 12, 0.75};
}

TEST_F(DatabaseTest, WhatIsStoredIsFoundAgain) {
  const TaskKey key{"te group ..", "target cpu\nthreads 2\n"};
  const std::vector<Record> records = {record("split a", 5), record("split b", 3)};
  {
    const auto database = open();
    ASSERT_NE(database, nullptr);
    EXPECT_TRUE(database->find(key).empty());
    database->store(key, records);
    EXPECT_EQ(database->find(key), records);
  }
  const auto again = open();
  EXPECT_EQ(again->find(key), records);
  EXPECT_TRUE(again->find({key.program, "target cpu\nthreads 1\n"}).empty());
  EXPECT_TRUE(again->find({"te other", key.environment}).empty());
  EXPECT_TRUE(notices_.empty());
}

TEST_F(DatabaseTest, ACandidateHasOneRecord) {
  const auto database = open();
  const TaskKey key{"p", "e"};
  database->store(key, {record("a", 5), record("b", 3)});
  Record crashed = record("a", 0);
  crashed.outcome = "crashed";
  crashed.reason = "signal 11";
  database->store(key, {crashed});
  EXPECT_EQ(database->find(key), (std::vector<Record>{record("b", 3), crashed}));
  const DatabaseStatus status = database->status();
  EXPECT_EQ(status.tasks, 1);
  EXPECT_EQ(status.measured, 1);
  EXPECT_EQ(status.quarantined, 1);
  EXPECT_EQ(status.environments, std::vector<std::string>{"e"});
}

TEST_F(DatabaseTest, TextOfAnyKindSurvives) {
  const auto database = open();
  const TaskKey key{std::string("nul \0 inside", 12), "line\nline \xc3\xa9 '; DROP TABLE tasks; --"};
  database->store(key, {record("q'\"", 1)});
  ASSERT_EQ(database->find(key).size(), 1u);
  EXPECT_EQ(database->find(key)[0].schedule, "q'\"");
}

TEST_F(DatabaseTest, AFileThatIsNoDatabaseIsMovedAside) {
  fs::create_directories(fs::path(path_).parent_path());
  for (const int round : {1, 2}) {
    std::ofstream(path_) << "this is no database at all, and it is long enough to have a header " << round;
    const auto database = open();
    ASSERT_NE(database, nullptr);
    database->store({"p", "e"}, {record("a", 1)});
    EXPECT_EQ(database->find({"p", "e"}).size(), 1u);
  }
  ASSERT_EQ(notices_.size(), 2u);
  EXPECT_NE(notices_[0].find("damaged"), std::string::npos) << notices_[0];
  EXPECT_TRUE(fs::exists(path_ + ".damaged"));
  EXPECT_TRUE(fs::exists(path_ + ".damaged-2"));
}

TEST_F(DatabaseTest, DamageInsideEndsInANotice) {
  {
    const auto database = open();
    for (int t = 0; t < 200; ++t)
      database->store({fmt::format("program {}", t), std::string(500, 'e')}, {record("a", t)});
  }
  // All but the first page, which says what the file is.
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<int64_t>(fs::file_size(path_));
  file.seekp(4096);
  file << std::string(static_cast<size_t>(size - 4096), '\x5a');
  file.close();
  {
    const auto database = open();
    if (database != nullptr) {
      EXPECT_TRUE(database->find({"program 7", std::string(500, 'e')}).empty());
      database->store({"p", "e"}, {record("a", 1)});  // does nothing, harms nobody
    }
  }
  EXPECT_FALSE(notices_.empty());
  const auto fresh = open();
  ASSERT_NE(fresh, nullptr);
  fresh->store({"p", "e"}, {record("a", 1)});
  EXPECT_EQ(fresh->find({"p", "e"}).size(), 1u);
}

TEST_F(DatabaseTest, WhereNoneCanBeHadThereIsNone) {
  std::ofstream(folder_ / "file") << "x";
  path_ = (folder_ / "file" / "tuning.db").string();
  EXPECT_EQ(open(), nullptr);
  path_ = folder_.string();
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(notices_.size(), 2u);
}

TEST_F(DatabaseTest, AnotherProgramsDatabaseIsLeftAlone) {
  fs::create_directories(fs::path(path_).parent_path());
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "CREATE TABLE bookmarks(url TEXT)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_EQ(open(), nullptr);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("another program"), std::string::npos) << notices_[0];
}

TEST_F(DatabaseTest, ANewerVersionIsLeftAlone) {
  open();
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA user_version = 99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_EQ(open(), nullptr);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("newer"), std::string::npos) << notices_[0];
}

TEST_F(DatabaseTest, SeveralProcessesWriteAtOnce) {
  constexpr int kProcesses = 4, kTasks = 25;
  open();
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      const auto database = Database::open(path_, {});
      if (database == nullptr) _exit(1);
      for (int t = 0; t < kTasks; ++t) {
        const TaskKey key{fmt::format("program {}", t), "e"};
        database->store(key, {record(fmt::format("schedule of {}", p), t)});
        if (database->find(key).empty()) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto database = open();
  EXPECT_EQ(database->status().tasks, kTasks);
  EXPECT_EQ(database->status().measured, kTasks * kProcesses);
}

TEST_F(DatabaseTest, TheRevisionCountsChangesFromElsewhere) {
  const auto database = open();
  EXPECT_EQ(database->revision(), 0);
  database->store({"p", "e"}, {record("a", 1)});
  EXPECT_EQ(database->revision(), 0);
  database->note_change();
  database->note_change();
  EXPECT_EQ(database->revision(), 2);
}

TEST_F(DatabaseTest, ARoughTimeTakesThePlaceOfNoOther) {
  const auto database = open();
  const TaskKey key{"p", "e"};
  Record rough = record("a", 7);
  rough.is_rough = true;
  database->store(key, {rough});
  EXPECT_EQ(database->find(key), std::vector<Record>{rough});
  database->store(key, {record("a", 5)});
  database->store(key, {rough});
  EXPECT_EQ(database->find(key), std::vector<Record>{record("a", 5)});
}

// As version 1 made it: records have no column `rough`.
TEST_F(DatabaseTest, OlderFilesGetWhatTheyLack) {
  const TaskKey key{"p", "e"};
  open()->store(key, {record("a", 5)});
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  for (const char* sql : {"ALTER TABLE records DROP COLUMN rough", "PRAGMA user_version = 1"})
    ASSERT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  sqlite3_close(handle);
  Record rough = record("b", 7);
  rough.is_rough = true;
  for (int round = 0; round < 2; ++round) {
    const auto database = open();
    ASSERT_NE(database, nullptr);
    database->store(key, {rough});
    EXPECT_EQ(database->find(key), (std::vector<Record>{record("a", 5), rough}));
  }
  EXPECT_TRUE(notices_.empty()) << notices_[0];
}

TEST_F(DatabaseTest, AllRecordsAreVisited) {
  const auto database = open();
  database->store({"p", "e"}, {record("a", 1), record("b", 2)});
  database->store({"q", "e"}, {record("c", 3)});
  std::vector<std::string> seen;
  database->for_each([&](const TaskKey& key, const Record& r) { seen.push_back(key.program + r.schedule); });
  EXPECT_EQ(seen, (std::vector<std::string>{"pa", "pb", "qc"}));
}

// A process that holds it, or was stopped while it did, locks nobody out for ever. SQLite has locks of its own.
TEST_F(DatabaseTest, WithoutItsLockItIsOpenedAndNothingIsMoved) {
  open();
  const FileLock other(path_ + ".lock", {});
  ASSERT_TRUE(other.is_held());
  const TaskKey key{"p", "e"};
  const auto start = std::chrono::steady_clock::now();
  const auto database = open();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  ASSERT_NE(database, nullptr);
  database->store(key, {record("a", 5)});
  EXPECT_EQ(database->find(key).size(), 1U);
  ASSERT_EQ(notices_.size(), 2U);
  EXPECT_NE(notices_[0].find("waiting up to 3 s for '" + path_ + ".lock'"), std::string::npos) << notices_[0];
  EXPECT_NE(notices_[1].find("opened without its lock"), std::string::npos) << notices_[1];
  const std::string damaged = (folder_ / "damaged.db").string();
  std::ofstream(damaged) << std::string(1000, 'x');
  const FileLock another(damaged + ".lock", {});
  EXPECT_EQ(Database::open(damaged, {}), nullptr);
  EXPECT_TRUE(fs::exists(damaged));
  EXPECT_FALSE(fs::exists(damaged + ".damaged"));
}

}  // namespace
}  // namespace tw::database
