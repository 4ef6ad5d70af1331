// A loop over independent pieces of work on several threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace tw {

/// Calls work(i) once for each i below `count` on up to `threads` threads (0: all CPUs), this one among them. What one
/// of them throws ends the loop and is thrown here.
inline void parallel_for(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto turns = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      throw;
    }
  };
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  const size_t wanted = std::min(static_cast<size_t>(std::max(1, threads > 0 ? threads : all)), count);
  std::vector<std::future<void>> others;
  for (size_t t = 1; t < wanted; ++t) others.push_back(std::async(std::launch::async, turns));
  turns();
  for (std::future<void>& other : others) other.get();
}

}  // namespace tw
