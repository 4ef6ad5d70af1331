// Limits of the memory and the time that a piece of work takes, looked at while it goes on: it ends with a sentence
// that says what was too much, and not by the system or never.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

namespace tw {

struct WorkLimits {
  int64_t memory_bytes = 0;  // of this process; 0: as much as the machine and its control groups have
  double seconds = 0;        // without pauses; 0: any
};

class WorkWatch {
 public:
  /// The time begins now.
  explicit WorkWatch(WorkLimits limits);

  /// ResourceError when a limit is reached while `done` of `total` steps of `phase` are done (total 0: it is not
  /// known). Looks at the clock each time, at memory every few milliseconds. Safe to call from several threads.
  void check(std::string_view phase, int64_t done = 0, int64_t total = 0);

  /// As long as it lives, time does not count. One at a time.
  class Pause {
   public:
    explicit Pause(WorkWatch* watch);
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    WorkWatch* watch_;
    double began_;
  };

 private:
  WorkLimits limits_;
  std::atomic<double> began_;  // later by each pause
  std::atomic<double> next_look_ = 0;
};

/// The same for work that may be watched or not.
inline void check_limits(WorkWatch* watch, std::string_view phase, int64_t done = 0, int64_t total = 0) {
  if (watch != nullptr) watch->check(phase, done, total);
}

}  // namespace tw
