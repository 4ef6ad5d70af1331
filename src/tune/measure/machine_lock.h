// One measurement at a time on a machine: compilers that run side by side take turns.
#pragma once
#include <functional>
#include <string>

namespace tw::tune {

class MachineLock {
 public:
  /// Waits for the lock of the file `path` (made if missing; empty: no lock), at most `seconds` and until `stop` says
  /// so. Whoever waits in vain goes on without: a measurement that is disturbed is better than none, and is_held() says
  /// that it may be.
  MachineLock(const std::string& path, double seconds, const std::function<bool()>& stop);
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;
  ~MachineLock();

  /// False when another one has the lock, or it could not be asked for; true without a lock to take.
  bool is_held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace tw::tune
