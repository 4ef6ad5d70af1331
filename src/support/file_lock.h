// A lock that processes take by a file; the system frees it when its holder ends, however that happens.
#pragma once
#include <functional>
#include <string>

namespace tw {

/// How a lock that another process holds is waited for.
struct LockWait {
  double seconds = 0;               // at most
  std::function<bool()> stop = {};  // true: wait no longer
  /// Called once, when the wait is long enough for a user to wonder: which file, who holds it, how long we wait.
  std::function<void(const std::string& sentence)> notice = {};
};

class FileLock {
 public:
  /// Takes the lock of the file `path` (made if missing; empty: no lock). A file system that has no locks, or has none
  /// left, locks nobody out: then we go on as with an empty path. Who may go on without the lock asks is_held().
  FileLock(const std::string& path, const LockWait& wait);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  /// False when another process has the lock, or its file could not be opened; true without a lock to take.
  bool is_held() const { return held_; }
  /// Whether the file is there to be asked.
  bool has_file() const { return fd_ >= 0; }
  /// Who has it, when another process does: "process 4711 (tilewright)", or "another process" where the system does
  /// not say.
  std::string holder() const;

 private:
  bool try_lock();
  std::string path_;
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace tw
