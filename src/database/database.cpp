#include "database/database.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "support/file_lock.h"
#include "support/hash.h"

namespace tw::database {
namespace {

namespace fs = std::filesystem;

constexpr int kSchemaVersion = 2;         // 1: records without `rough`
constexpr int kApplication = 0x54774462;  // what SQLite keeps in the file to tell whose it is
constexpr int kBusyMilliseconds = 5000;   // that another compiler may hold the file
constexpr double kOpeningSeconds = 3;     // that it may hold the lock for opening, which takes milliseconds

constexpr const char* kSchema = R"(
  CREATE TABLE IF NOT EXISTS tasks(
    id INTEGER PRIMARY KEY, hash TEXT NOT NULL, program TEXT NOT NULL, environment TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS tasks_by_hash ON tasks(hash);
  CREATE TABLE IF NOT EXISTS records(
    id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(id), family TEXT NOT NULL, layouts TEXT NOT NULL,
    schedule TEXT NOT NULL, predicted_us REAL NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    best_us REAL NOT NULL, median_us REAL NOT NULL, samples INTEGER NOT NULL, quiet_share REAL NOT NULL,
    rough INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX IF NOT EXISTS records_by_task ON records(task);
  CREATE TABLE IF NOT EXISTS counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
)";

/// A failure of SQLite with its code.
class SqlError : public std::runtime_error {
 public:
  SqlError(sqlite3* handle, int code)
      : std::runtime_error(handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code)), code_(code & 0xff) {}
  bool is_damage() const { return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB; }

 private:
  int code_;
};

void check(sqlite3* handle, int code) {
  if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) throw SqlError(handle, code);
}

// In the order of Statement::record().
constexpr std::string_view kColumns =
    "family, layouts, schedule, predicted_us, outcome, reason, best_us, median_us, samples, quiet_share, "
    "rough";

std::string hash_of(const TaskKey& key) { return content_hash(key.environment + '\0' + key.program); }

// Held while the file is opened and perhaps replaced, so that two compilers do not both move it aside. SQLite has locks
// of its own for everything else: who does not get this one in time goes on, and moves nothing.
class OpeningLock : public FileLock {
 public:
  OpeningLock(const std::string& path, const Database::Notice& notice)
      : FileLock(path + ".lock", {kOpeningSeconds, {}, notice}) {}
};

// Whether a damaged file was one of these, by its name or its beginning: other files stay where they are.
bool was_database(const std::string& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::string begin(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return path.ends_with(".db") || begin == kMagic;
}

// A free name beside `path`; the file moves there, without the logs that belong to it.
std::string move_aside(const std::string& path) {
  std::string aside = path + ".damaged";
  for (int n = 2; fs::exists(aside); ++n) aside = fmt::format("{}.damaged-{}", path, n);
  std::error_code ignored;  // another compiler may have been first
  fs::rename(path, aside, ignored);
  fs::remove(path + "-wal", ignored);
  fs::remove(path + "-shm", ignored);
  return aside;
}

}  // namespace

/// One SQL statement with its parameters bound in order.
class Database::Statement {
 public:
  Statement(sqlite3* handle, const std::string& sql) : handle_(handle) {
    check(handle, sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement_, nullptr));
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(const std::string& text) {
    check(handle_, sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
    return *this;
  }
  Statement& bind(int64_t value) {
    check(handle_, sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
  }
  Statement& bind(double value) {
    check(handle_, sqlite3_bind_double(statement_, ++bound_, value));
    return *this;
  }
  /// Moves to the next row; false at the end.
  bool next() {
    const int code = sqlite3_step(statement_);
    check(handle_, code);
    return code == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return data == nullptr ? "" : std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  Record record(int first) const {
    return {text(first),        text(first + 1), text(first + 2),         real(first + 3),
            text(first + 4),    text(first + 5), real(first + 6),         real(first + 7),
            integer(first + 8), real(first + 9), integer(first + 10) != 0};
  }

 private:
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

Database::Database(std::string path, sqlite3* handle, Notice notice)
    : path_(std::move(path)), handle_(handle), notice_(std::move(notice)) {}

Database::~Database() { sqlite3_close_v2(handle_); }

void Database::execute(const char* sql) { check(handle_, sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr)); }

// The handle of a file that is a database of ours; throws SqlError; a reason when it cannot be used as it is.
Result<sqlite3*> Database::open_file(const std::string& path) {
  if (fs::exists(path) && !fs::is_regular_file(path)) return declined("it is not a regular file");
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(path, handle, {});  // closes the handle whatever happens
  check(handle, opened);
  sqlite3_extended_result_codes(handle, 0);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  if (sqlite3_db_readonly(handle, "main") != 0) return declined("it is read-only");
  const auto ask = [&](const char* sql) {
    Statement statement(handle, sql);
    return statement.next() ? statement.integer(0) : 0;
  };
  const bool ours = ask("PRAGMA application_id") == kApplication;
  if (!ours && ask("SELECT COUNT(*) FROM sqlite_master") > 0) return declined("it is another program's database");
  const int64_t version = ask("PRAGMA user_version");
  if (version > kSchemaVersion) return declined("it was written by a newer version");
  database.execute("PRAGMA synchronous = NORMAL");
  if (ours && version == kSchemaVersion) return std::exchange(database.handle_, nullptr);
  database.make_schema();
  return std::exchange(database.handle_, nullptr);
}

// Makes what is not there. The version is read once more inside of the transaction: another compiler may have been
// first, where one of us has no opening lock.
void Database::make_schema() {
  execute("PRAGMA journal_mode = WAL");
  execute("BEGIN IMMEDIATE");
  const int64_t from = [this] {
    Statement version(handle_, "PRAGMA user_version");
    return version.next() ? version.integer(0) : 0;
  }();
  execute(kSchema);
  if (from == 1) execute("ALTER TABLE records ADD COLUMN rough INTEGER NOT NULL DEFAULT 0");
  execute(fmt::format("PRAGMA application_id = {}", kApplication).c_str());
  execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
  execute("COMMIT");
}

std::unique_ptr<Database> Database::open(const std::string& path, const Notice& notice) {
  const auto say = [&](const std::string& text) {
    if (notice) notice(text);
  };
  try {
    const fs::path folder = fs::path(path).parent_path();
    if (!folder.empty()) fs::create_directories(folder);
    const OpeningLock lock(path, notice);
    if (lock.has_file() && !lock.is_held())
      say(fmt::format("tuning database '{}' is opened without its lock: {} still holds '{}.lock'", path, lock.holder(),
                      path));
    for (int attempt = 0;; ++attempt) {
      try {
        const Result<sqlite3*> handle = open_file(path);
        if (handle.ok()) return std::unique_ptr<Database>(new Database(path, *handle, notice));
        say(fmt::format("tuning database '{}' is not used: {}", path, handle.reason()));
        return nullptr;
      } catch (const SqlError& error) {
        if (!error.is_damage() || attempt > 0 || !lock.is_held() || !was_database(path)) throw;
        say(fmt::format("tuning database '{}' is damaged ({}): moved to '{}'", path, error.what(), move_aside(path)));
      }
    }
  } catch (const SqlError& error) {
    say(fmt::format("tuning database '{}' is not used: {}", path, error.what()));
  } catch (const fs::filesystem_error& error) {
    say(fmt::format("tuning database '{}' is not used: {}", path, error.code().message()));
  }
  return nullptr;
}

std::unique_ptr<Database> Database::open_existing(const std::string& path) {
  try {
    const Result<sqlite3*> handle = open_file(path);
    return handle.ok() ? std::unique_ptr<Database>(new Database(path, *handle, {})) : nullptr;
  } catch (const SqlError&) {
    return nullptr;
  }
}

template <typename Body>
void Database::guarded(const Body& body) {
  if (handle_ == nullptr) return;
  try {
    body();
  } catch (const SqlError& error) {
    sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);  // fails where nothing was begun
    sqlite3_close_v2(std::exchange(handle_, nullptr));
    std::string what = error.what();
    if (error.is_damage()) {
      const OpeningLock lock(path_, notice_);
      if (lock.is_held()) what += fmt::format("; moved to '{}'", move_aside(path_));
    }
    if (notice_) notice_(fmt::format("tuning database '{}' is used no further: {}", path_, what));
  }
}

int64_t Database::find_task(const TaskKey& key) {
  Statement find(handle_, "SELECT id FROM tasks WHERE hash = ? AND program = ? AND environment = ?");
  find.bind(hash_of(key)).bind(key.program).bind(key.environment);
  return find.next() ? find.integer(0) : -1;
}

int64_t Database::add_task(const TaskKey& key) {
  if (const int64_t known = find_task(key); known >= 0) return known;
  Statement add(handle_, "INSERT INTO tasks(hash, program, environment) VALUES(?, ?, ?)");
  add.bind(hash_of(key)).bind(key.program).bind(key.environment).next();
  return sqlite3_last_insert_rowid(handle_);
}

std::vector<Record> Database::find(const TaskKey& key) {
  std::vector<Record> records;
  guarded([&] {
    const int64_t task = find_task(key);
    if (task < 0) return;
    Statement select(handle_, fmt::format("SELECT {} FROM records WHERE task = ? ORDER BY id", kColumns));
    select.bind(task);
    while (select.next()) records.push_back(select.record(0));
  });
  return records;
}

bool Database::has_time(int64_t task, const Record& r) {
  Statement find(handle_, "SELECT 1 FROM records WHERE task = ? AND schedule = ? AND layouts = ? AND rough = 0");
  return find.bind(task).bind(r.schedule).bind(r.layouts).next();
}

void Database::store(const TaskKey& key, const std::vector<Record>& records) {
  guarded([&] {
    execute("BEGIN IMMEDIATE");
    const int64_t task = add_task(key);
    for (const Record& r : records) {
      if (r.is_rough && has_time(task, r)) continue;
      Statement(handle_, "DELETE FROM records WHERE task = ? AND schedule = ? AND layouts = ?")
          .bind(task)
          .bind(r.schedule)
          .bind(r.layouts)
          .next();
      Statement insert(
          handle_, fmt::format("INSERT INTO records(task, {}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", kColumns));
      insert.bind(task).bind(r.family).bind(r.layouts).bind(r.schedule).bind(r.predicted_us).bind(r.outcome);
      insert.bind(r.reason).bind(r.best_us).bind(r.median_us).bind(r.samples).bind(r.quiet_share);
      insert.bind(int64_t{r.is_rough}).next();
    }
    execute("COMMIT");
  });
}

void Database::for_each(const std::function<void(const TaskKey& key, const Record& record)>& visit) {
  guarded([&] {
    Statement select(handle_, fmt::format("SELECT program, environment, {} FROM records JOIN tasks ON tasks.id = "
                                          "records.task ORDER BY tasks.id, records.id",
                                          kColumns));
    while (select.next()) visit({select.text(0), select.text(1)}, select.record(2));
  });
}

DatabaseStatus Database::status() {
  DatabaseStatus status;
  status.path = path_;
  std::error_code missing;
  status.bytes = static_cast<int64_t>(fs::file_size(path_, missing));
  if (missing) status.bytes = 0;
  guarded([&] {
    Statement counts(
        handle_, "SELECT (SELECT COUNT(*) FROM tasks), COUNT(*), COALESCE(SUM(outcome = 'measured'), 0) FROM records");
    counts.next();
    status.tasks = counts.integer(0);
    status.measured = counts.integer(2);
    status.quarantined = counts.integer(1) - counts.integer(2);
    Statement environments(handle_, "SELECT DISTINCT environment FROM tasks ORDER BY environment");
    while (environments.next()) status.environments.push_back(environments.text(0));
  });
  return status;
}

int64_t Database::revision() {
  int64_t value = 0;
  guarded([&] {
    Statement ask(handle_, "SELECT value FROM counters WHERE name = 'revision'");
    if (ask.next()) value = ask.integer(0);
  });
  return value;
}

void Database::note_change() {
  guarded([&] {
    execute(
        "INSERT INTO counters(name, value) VALUES('revision', 1) ON CONFLICT(name) DO UPDATE SET value = value + 1");
  });
}

}  // namespace tw::database
