// Tuning records: what was measured of which candidate, for later compilations. One SQLite file, opened by compilers
// only, never by workers; several compilers may have it open at once.
//
// A record belongs to a task: the canonical text of a te program (with the storage of its activations) and everything
// its times depend on (machine, versions of what makes and measures code, threads, ..), also as text. Tasks are found
// by a hash of both and then compared in full.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/error.h"

struct sqlite3;

namespace tw::database {

struct TaskKey {
  std::string program;
  std::string environment;  // a line for each thing that times depend on
  friend bool operator==(const TaskKey&, const TaskKey&) = default;
};

/// One candidate of a task and what became of it.
struct Record {
  std::string family;
  std::string layouts;   // of constant inputs, a line each
  std::string schedule;  // text; with the layouts, what identifies the candidate
  double predicted_us = 0;
  std::string outcome;  // "measured", or why it must not be tried again: "crashed", "wrong", ..
  std::string reason;
  double best_us = 0;  // best decile of one run
  double median_us = 0;
  int64_t samples = 0;
  double quiet_share = 0;
  bool is_rough = false;  // measuring it was given up, since it was slow: the times rest on few samples
  friend bool operator==(const Record&, const Record&) = default;
};

struct DatabaseStatus {
  std::string path;
  int64_t bytes = 0;
  int64_t tasks = 0;
  int64_t measured = 0;
  int64_t quarantined = 0;
  std::vector<std::string> environments;  // different ones
};

class Database {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// Opens or creates the file and its folders; a file of an older version gets what it lacks. A database that is
  /// damaged, and any file called *.db that is none, is moved aside (renamed to PATH.damaged, PATH.damaged-2, ..) and a
  /// new one made, with a notice. Null, with a notice, where none can be had: a folder or file that cannot be written,
  /// another file, a file of a newer version, a database that another process holds for more than seconds. The lock
  /// file PATH.lock guards moving only: where another process keeps it, the database is opened without it, with a
  /// notice, and nothing is moved.
  static std::unique_ptr<Database> open(const std::string& path, const Notice& notice);
  /// Opens a file that must be a database already; null otherwise. Nothing is moved.
  static std::unique_ptr<Database> open_existing(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // What fails once the file is open (a full disk, damage, a lock for more than seconds) ends in a notice; from then on
  // nothing is found and nothing stored.
  /// All records of a task, in the order in which they were stored.
  std::vector<Record> find(const TaskKey& key);
  /// Adds records, in place of earlier ones of the same candidates; all or none. A rough time takes the place of no
  /// other time.
  void store(const TaskKey& key, const std::vector<Record>& records);
  void for_each(const std::function<void(const TaskKey& key, const Record& record)>& visit);
  DatabaseStatus status();
  /// Number that grows whenever records come from elsewhere than from measuring here: see note_change().
  int64_t revision();
  void note_change();

 private:
  class Statement;
  Database(std::string path, sqlite3* handle, Notice notice);
  static Result<sqlite3*> open_file(const std::string& path);
  void make_schema();
  bool has_time(int64_t task, const Record& record);
  template <typename Body>
  void guarded(const Body& body);
  int64_t find_task(const TaskKey& key);
  int64_t add_task(const TaskKey& key);
  void execute(const char* sql);

  std::string path_;
  sqlite3* handle_ = nullptr;
  Notice notice_;
};

}  // namespace tw::database
