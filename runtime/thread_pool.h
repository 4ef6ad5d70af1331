// A team of threads that runs one list of loops at a time. Threads spin briefly for the next loop or list, then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/futex.h"
#include "runtime/host/limits.h"
#include "runtime/share.h"

namespace tw::runtime {

/// Loops that run one after the other: no tile of a loop starts before all tiles of the loop before have returned, and
/// sees their writes. Nothing here may throw or start other loops on the same pool.
class Loops {
 public:
  virtual ~Loops() = default;
  virtual int count() const = 0;
  virtual int64_t tiles(int loop) const = 0;
  /// Computes tiles [begin, end) of a loop on thread `thread` of the team, which runs one chunk at a time.
  virtual void run(int loop, int64_t begin, int64_t end, int thread) = 0;
  /// Called once after the last tile of a loop, before any of the next one.
  virtual void finished(int /*loop*/) {}
};

/// Runs all loops on the calling thread, as thread 0.
void run_alone(Loops& loops);

class ThreadPool {
 public:
  /// Starts threads - 1 workers (fewer if the system refuses); the caller of try_run is the remaining thread.
  /// `first_loop` is the number before that of the first loop, for tests: numbers wrap around.
  explicit ThreadPool(int threads, uint32_t first_loop = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs the loops on min(threads, size()) threads, the caller being thread 0. If other loops are running, returns
  /// false at once without a call. Allocates nothing.
  ///
  /// Thread t of T owns the t-th of T contiguous parts of every loop: the same part of two loops meets the same cache.
  /// It takes its part from the front in chunks; a thread that is done takes from the back of others' parts. Only
  /// threads that are inside a chunk are waited for: one that has not come, or that was descheduled between two
  /// chunks, delays nobody.
  bool try_run(int threads, Loops& loops);

  /// CPUs that the calling thread may use at present, as far as known: the affinity mask may change, and is looked at
  /// again when a thread of the pool has had to sleep within a list, and now and then.
  int usable_cpus();

  /// The pool of this process, made at the first call and as large as the affinity mask. A forked child gets its own.
  static ThreadPool& of_process();

 private:
  struct Worker;
  struct Current;

  void work(Worker& worker);
  void begin_next(uint32_t number, uint32_t threads);
  void take_part(uint32_t thread);
  uint32_t run_chunks(const Current& now, uint32_t owner, uint32_t thread);
  uint32_t help(const Current& now, uint32_t thread);
  void report(const Current& now, uint32_t done);
  void renew_shares();

  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Share[]> shares_;  // of each thread
  // What a team shares, each on its own cache line.
  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) WaitWord current_;                     // the loop that runs, see Current
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // units of the current loop that have not been reported
  // Written by the caller of try_run before the first loop of a list begins; read by threads that hold a chunk.
  alignas(64) Loops* loops_ = nullptr;
  uint32_t before_first_ = 0;  // number of the loop before the list's first
  uint32_t renewed_ = 0;       // number of the loop after which shares were last renewed
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<bool> slept_{true};       // a thread had to sleep since cpus_ was looked up
  std::atomic<uint32_t> questions_{0};  // calls of usable_cpus
  std::atomic<int> cpus_{1};
};

using host::affinity_cpus;

}  // namespace tw::runtime
