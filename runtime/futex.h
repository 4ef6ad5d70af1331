// Waiting for a word to change: a bounded spin, then sleep in the kernel.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

namespace tw::runtime {

/// Sleeps unless `word` differs from `seen`; may return early.
inline void futex_wait(uint32_t* word, uint32_t seen) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

/// Wakes at most `count` threads that sleep on `word`.
inline void futex_wake(uint32_t* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// A word that threads wait on; a change wakes those that sleep. The kernel compares its lower half: whoever stores a
/// value must change that.
class WaitWord {
 public:
  explicit WaitWord(uint64_t value = 0) : word_(value) {}
  uint64_t load() const { return word_.load(std::memory_order_acquire); }
  /// Stores a value and wakes all sleepers.
  void store(uint64_t value) {
    word_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(lower_half(), INT32_MAX);
  }
  /// Spins until the word differs from `seen`, for about `budget_ns`; true if it does.
  bool spin_while_equal(uint64_t seen, int64_t budget_ns) const {
    using Clock = std::chrono::steady_clock;
    constexpr int kPausesPerClock = 32;  // one look at the clock every 1 to 2 us: pause takes 40 to 140 cycles
    Clock::time_point deadline{};
    while (true) {
      if (differs_within(seen, kPausesPerClock)) return true;
      const Clock::time_point now = Clock::now();
      if (deadline == Clock::time_point{}) deadline = now + std::chrono::nanoseconds(budget_ns);
      if (now >= deadline) return load() != seen;
    }
  }
  /// Whether the word differs from `seen` at one of `looks` looks with a pause after each.
  bool differs_within(uint64_t seen, int looks) const {
    for (int i = 0; i < looks; ++i) {
      if (load() != seen) return true;
      cpu_pause();
    }
    return false;
  }
  /// Returns once the word differs from `seen`: spins at most `budget_ns`, then sleeps. True if it slept.
  bool wait_while_equal(uint64_t seen, int64_t budget_ns) {
    if (spin_while_equal(seen, budget_ns)) return false;
    // Announce first, look again, then sleep; the writer stores first and looks for sleepers afterwards. With both in
    // one total order (seq_cst), either the sleeper sees the new word or the writer sees the sleeper.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (word_.load(std::memory_order_seq_cst) == seen) futex_wait(lower_half(), static_cast<uint32_t>(seen));
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

 private:
  static_assert(std::endian::native == std::endian::little, "the lower half of a word comes first");
  uint32_t* lower_half() { return reinterpret_cast<uint32_t*>(&word_); }

  std::atomic<uint64_t> word_;
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace tw::runtime
