#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

namespace tw::runtime {
namespace {

/// Involuntary context switches of the calling thread: the sign that more threads want to run than there are CPUs.
long preemptions() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

thread_local long seen_preemptions = -1;

/// Whether the calling thread was preempted since its last call.
bool was_preempted() {
  const long now = preemptions();
  const bool result = seen_preemptions >= 0 && now != seen_preemptions;
  seen_preemptions = now;
  return result;
}

}  // namespace

struct alignas(64) ThreadPool::Worker {
  WaitWord start;  // regions this worker was called to
  int number = 0;  // its thread number in a region
  std::thread thread;
};

void Team::barrier() const {
  if (threads_ > 1) pool_->barrier();
}

ThreadPool::ThreadPool(int threads) {
  // The host's signal handlers belong on the host's threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 1; i < threads; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->number = i;
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
  stop_ = true;
  for (auto& worker : workers_) worker->start.advance();
  for (auto& worker : workers_) worker->thread.join();
}

void ThreadPool::work(Worker& worker) {
  for (uint32_t seen = 0;; ++seen) {
    worker.start.wait_while_equal(seen, kMaxSpinNs);
    if (stop_) return;
    body_(state_, Team(this, worker.number, threads_));
    finish_thread();
  }
}

void ThreadPool::finish_thread() {
  note_preemption();
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.advance();
}

bool ThreadPool::try_run(int threads, Body body, void* state) {
  threads = std::clamp(threads, 1, size());
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  body_ = body;
  state_ = state;
  threads_ = threads;
  missing_.store(threads, std::memory_order_relaxed);
  running_.store(threads - 1, std::memory_order_relaxed);
  const uint32_t finished = finished_.load();
  for (int i = 1; i < threads; ++i) workers_[static_cast<size_t>(i - 1)]->start.advance();
  body(state, Team(this, 0, threads));
  if (threads > 1) {
    wait(finished_, finished);
    note_preemption();
    adapt_spin();
  }
  busy_.store(false, std::memory_order_release);
  return true;
}

void ThreadPool::barrier() {
  const uint32_t passed = barriers_.load();
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    missing_.store(threads_, std::memory_order_relaxed);
    barriers_.advance();
  } else {
    wait(barriers_, passed);
  }
}

void ThreadPool::wait(WaitWord& word, uint32_t seen) {
  const bool slept = word.wait_while_equal(seen, spin_ns_.load(std::memory_order_relaxed));
  if (slept) looks_.store(kLooks, std::memory_order_relaxed);
}

/// Asking the kernel takes about 500 ns, as long as a whole short region: only while waits have been long.
void ThreadPool::note_preemption() {
  if (looks_.load(std::memory_order_relaxed) > 0 && was_preempted()) crowded_.store(true, std::memory_order_relaxed);
}

/// A spinner on a crowded machine takes the time that the thread it waits for needs: spin less while threads of the
/// region are being preempted, more again once they are not. Uneven work alone does not shorten the spin.
void ThreadPool::adapt_spin() {
  const bool crowded = crowded_.exchange(false, std::memory_order_relaxed);
  const int looks = looks_.load(std::memory_order_relaxed);
  if (looks > 0) looks_.store(looks - 1, std::memory_order_relaxed);
  const int64_t now = spin_ns_.load(std::memory_order_relaxed);
  spin_ns_.store(crowded ? std::max(now / 2, kMinSpinNs) : std::min(now * 2, kMaxSpinNs), std::memory_order_relaxed);
}

int affinity_cpus() {
  // A fixed cpu_set_t holds 1024 CPUs; the kernel refuses a set that is too small for the machine.
  for (size_t cpus = 1024; cpus <= (size_t{1} << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    const int count = ok ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (ok) return std::max(count, 1);
  }
  return 1;
}

namespace {

// Never destroyed: its threads may run until the process ends, and the library is linked not to be unloaded.
std::atomic<ThreadPool*> process_pool{nullptr};
std::mutex process_pool_mutex;

}  // namespace

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
