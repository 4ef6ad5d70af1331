// Waiting for a 32-bit word to change: a bounded spin, then sleep in the kernel.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tw::runtime {

/// Sleeps unless `word` differs from `seen`; may return early.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

/// Wakes at most `count` threads that sleep on `word`.
inline void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Spins until `word` differs from `seen`, for about `budget_ns`; true if it does.
inline bool spin_while_equal(const std::atomic<uint32_t>& word, uint32_t seen, int64_t budget_ns) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPausesPerClock = 32;  // one look at the clock every 1 to 2 us: pause takes 40 to 140 cycles
  Clock::time_point deadline{};
  while (true) {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (word.load(std::memory_order_acquire) != seen) return true;
      cpu_pause();
    }
    const Clock::time_point now = Clock::now();
    if (deadline == Clock::time_point{}) deadline = now + std::chrono::nanoseconds(budget_ns);
    if (now >= deadline) return word.load(std::memory_order_acquire) != seen;
  }
}

/// A word that threads wait on; a change wakes those that sleep.
class WaitWord {
 public:
  uint32_t load() const { return word_.load(std::memory_order_acquire); }
  /// Returns once the word differs from `seen`: spins at most `budget_ns`, then sleeps. True if it slept.
  bool wait_while_equal(uint32_t seen, int64_t budget_ns) {
    if (spin_while_equal(word_, seen, budget_ns)) return false;
    // Announce first, look again, then sleep; the writer stores first and looks for sleepers afterwards. With both in
    // one total order (seq_cst), either the sleeper sees the new word or the writer sees the sleeper.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (word_.load(std::memory_order_seq_cst) == seen) futex_wait(word_, seen);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  /// Adds 1 and wakes all sleepers.
  void advance() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(word_, INT32_MAX);
  }

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace tw::runtime
