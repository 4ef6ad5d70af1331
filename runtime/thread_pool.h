// A fork-join pool for one parallel region at a time: workers spin briefly for the next region or barrier, then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/futex.h"

namespace tw::runtime {

class ThreadPool;

/// What a region's body knows of the region: its own number and the others.
class Team {
 public:
  /// A team of one, for running a region without a pool.
  Team() = default;
  int thread() const { return thread_; }
  int threads() const { return threads_; }
  /// Returns once every thread of the team has called it; makes their writes visible.
  void barrier() const;

 private:
  friend class ThreadPool;
  Team(ThreadPool* pool, int thread, int threads) : pool_(pool), thread_(thread), threads_(threads) {}
  ThreadPool* pool_ = nullptr;
  int thread_ = 0;
  int threads_ = 1;
};

class ThreadPool {
 public:
  using Body = void (*)(void* state, const Team& team);

  /// Starts threads - 1 workers (fewer if the system refuses); the caller of try_run is the remaining thread.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(state, team) on min(threads, size()) threads at once, the caller being thread 0, and returns when all
  /// have returned. If another region is running, returns false at once without a call. Allocates nothing. The body
  /// must not throw and must not start a region.
  bool try_run(int threads, Body body, void* state);

  /// The pool of this process, made at the first call and as large as the affinity mask. A forked child gets its own.
  static ThreadPool& of_process();

 private:
  friend class Team;
  struct Worker;

  void work(Worker& worker);
  void barrier();
  void finish_thread();
  void wait(WaitWord& word, uint32_t seen);
  void note_preemption();
  void adapt_spin();

  static constexpr int64_t kMaxSpinNs = 100'000;  // several times a futex wake-up; far below a scheduler slice
  static constexpr int64_t kMinSpinNs = 5'000;
  static constexpr int kLooks = 16;  // regions that are watched for preemption after a wait that was too long to spin

  std::vector<std::unique_ptr<Worker>> workers_;
  // What a region shares, each on its own cache line.
  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) std::atomic<int> missing_{0};  // threads that have not reached the current barrier
  alignas(64) WaitWord barriers_;            // barriers passed
  alignas(64) std::atomic<int> running_{0};  // workers that have not finished the region
  alignas(64) WaitWord finished_;            // regions finished
  alignas(64) std::atomic<int> looks_{0};    // regions still to be watched
  std::atomic<bool> crowded_{false};         // a thread of this region was preempted
  std::atomic<int64_t> spin_ns_{kMaxSpinNs};
  Body body_ = nullptr;
  void* state_ = nullptr;
  int threads_ = 1;
  bool stop_ = false;
};

/// Number of CPUs in the calling thread's affinity mask, at least 1.
int affinity_cpus();

}  // namespace tw::runtime
