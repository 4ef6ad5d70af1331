#include "runtime/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/float_environment.h"

namespace tw::runtime {
namespace {

constexpr int64_t kSpinNs = 100'000;    // several times a futex wake-up; far below a scheduler slice
constexpr uint32_t kChunks = 8;         // of a part: what a descheduled thread may hold; each costs its owner 10 ns
constexpr int kLooksBeforeHelping = 8;  // threads of even work end within 300 ns; their shares' lines are left alone
constexpr uint32_t kQuestionsPerLook = 64;  // a look takes 300 ns
constexpr uint32_t kRenewal = 1u << 30;

/// Tiles of a unit, so that a loop has at most kMaxUnits units.
int64_t grain_of(int64_t tiles) { return (tiles + kMaxUnits - 1) / kMaxUnits; }

uint32_t units_of(int64_t tiles) {
  const int64_t grain = grain_of(tiles);
  return static_cast<uint32_t>((tiles + grain - 1) / grain);
}

// Never destroyed: its threads may run until the process ends, and the library is linked not to be unloaded.
std::atomic<ThreadPool*> process_pool{nullptr};
std::mutex process_pool_mutex;

}  // namespace

void run_alone(Loops& loops) {
  const DefaultFloatEnvironment environment;
  for (int i = 0; i < loops.count(); ++i) {
    if (loops.tiles(i) > 0) loops.run(i, 0, loops.tiles(i), 0);
    loops.finished(i);
  }
}

struct alignas(64) ThreadPool::Worker {
  WaitWord calls;                    // lists of loops that this worker was called to
  std::atomic<bool> resting{false};  // it holds no share's word
  uint32_t number = 0;               // its thread number
  std::thread thread;
};

/// The loop that runs, in a word: its number, its units, the threads of the team. No threads: no loop runs.
struct ThreadPool::Current {
  uint64_t word;
  static Current of(uint32_t number, uint32_t units, uint32_t threads) {
    return {uint64_t{threads} << 48 | uint64_t{units} << 32 | number};
  }
  uint32_t number() const { return static_cast<uint32_t>(word); }
  uint32_t units() const { return static_cast<uint32_t>(word >> 32) & kMaxUnits; }
  uint32_t threads() const { return static_cast<uint32_t>(word >> 48); }
};

ThreadPool::ThreadPool(int threads, uint32_t first_loop)
    : shares_(std::make_unique<Share[]>(static_cast<size_t>(threads))),
      current_(Current::of(first_loop, 0, 0).word),
      renewed_(first_loop) {
  for (int i = 0; i < threads; ++i) shares_[static_cast<size_t>(i)].forget(first_loop);
  // The host's signal handlers belong on the host's threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 1; i < threads; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->number = static_cast<uint32_t>(i);
    try {
      worker->thread = std::thread([this, &state = *worker] { work(state); });
    } catch (const std::system_error&) {
      break;
    }
    pthread_setname_np(worker->thread.native_handle(), "tilewright");
    workers_.push_back(std::move(worker));
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  for (auto& worker : workers_) worker->calls.store(worker->calls.load() + 1);
  for (auto& worker : workers_) worker->thread.join();
}

void ThreadPool::work(Worker& worker) {
  const DefaultFloatEnvironment environment;
  uint64_t seen = 0;
  while (true) {
    worker.resting.store(true, std::memory_order_release);
    worker.calls.wait_while_equal(seen, kSpinNs);
    seen = worker.calls.load();  // one look now answers all calls so far; those that come later are seen above
    if (stop_.load(std::memory_order_relaxed)) return;
    worker.resting.store(false, std::memory_order_relaxed);
    take_part(worker.number);
  }
}

bool ThreadPool::try_run(int threads, Loops& loops) {
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  renew_shares();
  loops_ = &loops;
  before_first_ = Current{current_.load()}.number();
  begin_next(before_first_, static_cast<uint32_t>(std::clamp(threads, 1, size())));
  const uint32_t team = Current{current_.load()}.threads();
  for (uint32_t i = 1; i < team; ++i) workers_[i - 1]->calls.store(workers_[i - 1]->calls.load() + 1);
  const DefaultFloatEnvironment environment;
  take_part(0);
  busy_.store(false, std::memory_order_release);
  return true;
}

/// Numbers wrap around, and a number in a share is only right while it is less than 2^31 loops old: long before, all
/// shares get the present one, and no worker may still be between reading an old one and changing it.
void ThreadPool::renew_shares() {
  const uint32_t number = Current{current_.load()}.number();
  if (number - renewed_ < kRenewal) return;
  for (auto& worker : workers_) {
    while (!worker->resting.load(std::memory_order_acquire)) std::this_thread::yield();
  }
  for (int i = 0; i < size(); ++i) shares_[static_cast<size_t>(i)].forget(number);
  renewed_ = number;
}

/// Begins the loop after `number`, or ends the list. Loops without tiles are over at once.
void ThreadPool::begin_next(uint32_t number, uint32_t threads) {
  while (true) {
    const auto index = static_cast<int>(++number - before_first_ - 1);
    if (index == loops_->count()) {
      current_.store(Current::of(number, 0, 0).word);
      return;
    }
    if (const int64_t tiles = loops_->tiles(index); tiles > 0) {
      const auto units = units_of(tiles);
      unfinished_.store(units, std::memory_order_relaxed);
      current_.store(Current::of(number, units, threads).word);
      return;
    }
    loops_->finished(index);
  }
}

/// Runs chunks of the current loop, of the thread's own part and then of others', waits for the next loop, until there
/// is none. A thread may come late, even to another list than it was called for.
void ThreadPool::take_part(uint32_t thread) {
  for (Current now{current_.load()}; thread < now.threads(); now.word = current_.load()) {
    report(now, run_chunks(now, thread, thread));
    if (current_.differs_within(now.word, kLooksBeforeHelping)) continue;
    report(now, help(now, thread));
    if (current_.wait_while_equal(now.word, kSpinNs)) slept_.store(true, std::memory_order_relaxed);
  }
}

uint32_t ThreadPool::help(const Current& now, uint32_t thread) {
  uint32_t done = 0;
  for (uint32_t i = 1; i < now.threads() && current_.load() == now.word; ++i) {
    done += run_chunks(now, (thread + i) % now.threads(), thread);
  }
  return done;
}

uint32_t ThreadPool::run_chunks(const Current& now, uint32_t owner, uint32_t thread) {
  const Units whole = part_of(now.units(), owner, now.threads());
  const uint32_t max = (whole.size() + kChunks - 1) / kChunks;
  const Share::Side side = owner == thread ? Share::Side::kFront : Share::Side::kBack;
  uint32_t done = 0;
  while (true) {
    const Units chunk = shares_[owner].claim(now.number(), whole, max, side);
    if (chunk.empty()) return done;
    // From here to the report the loop runs: loops_ is that of the loop.
    const auto index = static_cast<int>(now.number() - before_first_ - 1);
    const int64_t tiles = loops_->tiles(index), grain = grain_of(tiles);
    loops_->run(index, chunk.begin * grain, std::min(chunk.end * grain, tiles), static_cast<int>(thread));
    done += chunk.size();
  }
}

/// Whoever reports the last units of a loop begins the next one.
void ThreadPool::report(const Current& now, uint32_t done) {
  if (done == 0 || unfinished_.fetch_sub(done, std::memory_order_acq_rel) != done) return;
  loops_->finished(static_cast<int>(now.number() - before_first_ - 1));
  begin_next(now.number(), now.threads());
}

int ThreadPool::usable_cpus() {
  const bool now_and_then = questions_.fetch_add(1, std::memory_order_relaxed) % kQuestionsPerLook == 0;
  if (slept_.exchange(false, std::memory_order_relaxed) || now_and_then) {
    cpus_.store(affinity_cpus(), std::memory_order_relaxed);
  }
  return cpus_.load(std::memory_order_relaxed);
}

ThreadPool& ThreadPool::of_process() {
  if (ThreadPool* pool = process_pool.load(std::memory_order_acquire)) return *pool;
  // A forked child has the pool's memory but not its threads; the lock must not be held by a thread that is not there.
  static const int registered = pthread_atfork([] { process_pool_mutex.lock(); }, [] { process_pool_mutex.unlock(); },
                                               [] {
                                                 process_pool.store(nullptr, std::memory_order_release);
                                                 process_pool_mutex.unlock();
                                               });
  (void)registered;
  const std::lock_guard lock(process_pool_mutex);
  if (ThreadPool* pool = process_pool.load(std::memory_order_acquire)) return *pool;
  auto* pool = new ThreadPool(affinity_cpus());
  process_pool.store(pool, std::memory_order_release);
  return *pool;
}

}  // namespace tw::runtime
