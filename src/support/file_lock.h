// A lock that processes take by a file; the system frees it when its holder ends, however that happens.
#pragma once
#include <functional>
#include <string>

namespace tw {

class FileLock {
 public:
  /// Waits for the lock of the file `path` (made if missing; empty: no lock), at most `seconds` and until `stop` says
  /// so. Who may go on without it asks is_held().
  FileLock(const std::string& path, double seconds, const std::function<bool()>& stop = {});
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  /// False when another one has the lock, or it could not be asked for; true without a lock to take.
  bool is_held() const { return held_; }
  /// Whether the file is there to be asked.
  bool has_file() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace tw
