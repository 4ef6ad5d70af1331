#include "support/work_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "runtime/host/limits.h"
#include "support/error.h"
#include "support/text.h"

namespace tw {
namespace {

constexpr double kLookSeconds = 0.01;                                            // between two looks at memory
constexpr int64_t kMinReserve = 16 << 20, kLargestReserve = int64_t{128} << 20;  // bytes that must stay free
constexpr int64_t kReserveShare = 16;  // of all memory: the part that must stay free, as long as looks are apart

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes of memory that are this process's own; files that are mapped can be had again.
int64_t own_memory() {
  int64_t size = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

std::string place_of(std::string_view phase, int64_t done, int64_t total) {
  if (total > 0) return fmt::format("{}, {} of {}", phase, done, total);
  return done > 0 ? fmt::format("{}, {}", phase, done) : std::string(phase);
}

std::string text_of(int64_t bytes) { return size_text(static_cast<double>(bytes)); }

constexpr std::string_view kRemedy =
    "compile a smaller model, shorter sequences or fewer combinations of shapes at a time";

}  // namespace

WorkWatch::WorkWatch(WorkLimits limits) : limits_(limits), began_(now_seconds()) {}

void WorkWatch::check(std::string_view phase, int64_t done, int64_t total) {
  const double now = now_seconds();
  if (limits_.seconds > 0 && now - began_ > limits_.seconds) {
    throw ResourceError("{}: {:.1f} s have passed, {:g} are allowed (--max-time): allow more, or {}",
                        place_of(phase, done, total), now - began_, limits_.seconds, kRemedy);
  }
  if (now < next_look_) return;
  next_look_ = now + kLookSeconds;
  const int64_t own = own_memory();
  if (limits_.memory_bytes > 0) {
    if (own <= limits_.memory_bytes) return;
    throw ResourceError("{}: the compiler uses {} of memory, {} is allowed (--max-memory): allow more, or {}",
                        place_of(phase, done, total), text_of(own), text_of(limits_.memory_bytes), kRemedy);
  }
  const host::MemoryLimit limit = host::memory_limit();
  const int64_t reserve = std::clamp(limit.bytes / kReserveShare, kMinReserve, kLargestReserve);
  if (limit.available >= reserve || own <= reserve) return;
  throw ResourceError("{}: the compiler uses {} of memory, and {} has {} left of {}: give it more, or {}",
                      place_of(phase, done, total), text_of(own), limit.owner, text_of(limit.available),
                      text_of(limit.bytes), kRemedy);
}

WorkWatch::Pause::Pause(WorkWatch* watch) : watch_(watch), began_(now_seconds()) {}

WorkWatch::Pause::~Pause() {
  if (watch_ != nullptr) watch_->began_ = watch_->began_ + now_seconds() - began_;
}

}  // namespace tw
