// Whether a core was quiet while something was measured on it.
#pragma once
#include <cstdint>

namespace tw {

/// Watches the thread that makes it. Other programs show in two ways: a sibling hardware thread halves the rate at
/// which this core issues instructions, and the scheduler takes the core away. So a stretch of time is quiet when a
/// short loop of empty instructions runs at its usual rate before and after it, and no involuntary context switch fell
/// into it. Both can be passed by a disturbance in the middle of a long sample: samples should be short.
class QuietWatch {
 public:
  /// Whose context switches count: those of this thread, or of all threads of the process.
  enum class Switches : uint8_t { kOfThread, kOfProcess };
  explicit QuietWatch(Switches counted = Switches::kOfThread) : counted_(counted) {}
  /// Probes (about 35 us) and starts watching.
  void start();
  /// Probes again; whether all was quiet since start().
  bool stop();

 private:
  Switches counted_;
  double fastest_ = 0;  // instructions a nanosecond, the best ever seen here
  double before_ = 0;
  long switches_ = 0;
};

}  // namespace tw
