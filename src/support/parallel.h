// A loop over independent pieces of work on several threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/host/limits.h"

namespace tw {

/// Calls work(i) once for each i below `count` on up to `threads` threads (0: all CPUs), this one among them. What one
/// of them throws ends the loop; the error of the first i that fails is thrown here.
inline void parallel_for(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = count;
  std::exception_ptr error;
  const auto turns = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {  // whatever comes before i has begun, and is heard, too
        const std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
    }
  };
  const int all = threads > 0 || count < 2 ? threads : host::usable_cpus();
  const size_t wanted = std::min(static_cast<size_t>(std::max(all, 1)), count);
  std::vector<std::jthread> others;
  try {
    for (size_t t = 1; t < wanted; ++t) others.emplace_back(turns);
  } catch (const std::system_error&) {  // those that there are do it
  }
  turns();
  others.clear();  // joins
  if (error) std::rethrow_exception(error);
}

/// Runs body(begin, end) over [0, count) in parallel, in two or more contiguous parts where that pays: `cost_each` is
/// in multiply-adds.
inline void parallel_ranges(int64_t count, int64_t cost_each, const std::function<void(int64_t, int64_t)>& body) {
  constexpr int64_t kWorthAThread = 1 << 20;  // some 0.5 ms, well above the cost of starting a thread
  const int64_t worth = std::min(count, count * cost_each / kWorthAThread);
  const int64_t parts = worth < 2 ? 1 : std::min<int64_t>(worth, host::usable_cpus());
  parallel_for(static_cast<size_t>(parts), static_cast<int>(parts), [&](size_t p) {
    const auto part = static_cast<int64_t>(p);
    body(count * part / parts, count * (part + 1) / parts);
  });
}

}  // namespace tw
