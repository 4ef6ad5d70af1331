// The thread pool: every tile once and in order of loops, whoever comes late, sleeps, or is missing.
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace tw {
namespace {

using runtime::Loops;
using runtime::ThreadPool;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Loops of given tiles; counts how often each tile ran, without atomics: a tile that runs twice or unordered is a
/// wrong count, or ThreadSanitizer's finding.
class Counting : public Loops {
 public:
  using Before = std::function<void(int loop, int64_t tile, int thread)>;
  explicit Counting(std::vector<int64_t> tiles, Before before = nullptr)
      : tiles_(std::move(tiles)), before_(std::move(before)), finished_(tiles_.size(), 0) {
    for (const int64_t n : tiles_) counts_.emplace_back(static_cast<size_t>(n), 0);
  }
  int count() const override { return static_cast<int>(tiles_.size()); }
  int64_t tiles(int loop) const override { return tiles_[static_cast<size_t>(loop)]; }
  void run(int loop, int64_t begin, int64_t end, int thread) override {
    for (int64_t i = begin; i < end; ++i) {
      if (before_) before_(loop, i, thread);
      const auto at = static_cast<size_t>(loop);
      // Another tile of the loop before, most likely another thread's.
      if (at > 0 && tiles_[at - 1] > 0 && counts_[at - 1][static_cast<size_t>(i * 7 % tiles_[at - 1])] != runs_ + 1) {
        disorder_ = true;
      }
      counts_[at][static_cast<size_t>(i)] += 1;
    }
  }
  void finished(int loop) override { finished_[static_cast<size_t>(loop)] += 1; }

  /// To be called after each run: everything ran once more.
  ::testing::AssertionResult ran_once() {
    ++runs_;
    if (disorder_) return ::testing::AssertionFailure() << "a loop began before the one before it was over";
    for (size_t loop = 0; loop < tiles_.size(); ++loop) {
      if (finished_[loop] != runs_) return ::testing::AssertionFailure() << "loop " << loop << " finished otherwise";
      for (const int n : counts_[loop]) {
        if (n != runs_) return ::testing::AssertionFailure() << "loop " << loop << ": " << n << " of " << runs_;
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::vector<int64_t> tiles_;
  Before before_;
  std::vector<std::vector<int>> counts_;
  std::vector<int> finished_;
  int runs_ = 0;
  std::atomic<bool> disorder_{false};
};

/// A cheap hash for delays that differ from run to run and thread to thread.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

void spin_for(std::chrono::nanoseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

TEST(ThreadPool, EveryTileRunsOnce) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadPool pool(size);
    ASSERT_EQ(pool.size(), size);
    for (int threads = 1; threads <= size + 1; ++threads) {
      Counting loops({1, 7, 0, 100, 2, 0, 1, 70'001, 3, 0});
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(pool.try_run(threads, loops));
        ASSERT_TRUE(loops.ran_once()) << threads << " of " << size;
      }
    }
  }
}

TEST(ThreadPool, ListsWithoutTilesEnd) {
  ThreadPool pool(2);
  Counting none({}), empty({0, 0, 0});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool.try_run(2, none));
    ASSERT_TRUE(pool.try_run(2, empty));
    ASSERT_TRUE(empty.ran_once());
  }
}

TEST(ThreadPool, RunAloneDoesTheSame) {
  Counting loops({3, 0, 17}, [](int, int64_t, int thread) { EXPECT_EQ(thread, 0); });
  run_alone(loops);
  EXPECT_TRUE(loops.ran_once());
}

/// Without delays every thread does its own part, from the front to the back.
TEST(ThreadPool, APartBelongsToAThread) {
  for (const uint32_t units : {0u, 1u, 2u, 7u, 64u, 65'535u}) {
    for (const uint32_t count : {1u, 2u, 3u, 8u, 64u}) {
      uint32_t next = 0;
      for (uint32_t i = 0; i < count; ++i) {
        const runtime::Units part = runtime::part_of(units, i, count);
        EXPECT_EQ(part.begin, next);
        EXPECT_LE(part.size(), units / count + 1);
        EXPECT_GE(part.size(), units / count);
        next = part.end;
      }
      EXPECT_EQ(next, units);
    }
  }
}

TEST(ThreadPool, AShareIsClaimedFromBothEnds) {
  using Side = runtime::Share::Side;
  runtime::Share share;
  const runtime::Units whole{10, 30};
  const auto claim = [&](uint32_t loop, uint32_t max, Side side) {
    const runtime::Units units = share.claim(loop, whole, max, side);
    return std::pair(units.begin, units.end);
  };
  using Pair = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(claim(5, 4, Side::kBack), Pair(26, 30)) << "the owner need not have come";
  EXPECT_EQ(claim(5, 6, Side::kFront), Pair(10, 16));
  EXPECT_EQ(claim(5, 100, Side::kBack), Pair(21, 26)) << "half of what is left";
  EXPECT_EQ(claim(4, 1, Side::kFront), Pair(0, 0)) << "of a loop that is over";
  EXPECT_EQ(claim(5, 100, Side::kFront), Pair(16, 21));
  EXPECT_EQ(claim(5, 1, Side::kFront), Pair(0, 0));
  EXPECT_EQ(claim(6, 1, Side::kFront), Pair(10, 11));
  share.forget(0xffff'fffe);
  EXPECT_EQ(claim(0xffff'fffe, 1, Side::kFront), Pair(0, 0));
  EXPECT_EQ(claim(2, 1, Side::kFront), Pair(10, 11)) << "numbers wrap around";
  EXPECT_EQ(claim(0xffff'ffff, 1, Side::kFront), Pair(0, 0));
}

/// Threads stop inside tiles for a while, at random: others take their tiles.
TEST(ThreadPool, RandomDelays) {
  const int sizes[] = {2, 3, 4 * runtime::affinity_cpus()};
  for (const int size : sizes) {
    ThreadPool pool(size);
    std::atomic<uint64_t> seed{static_cast<uint64_t>(size)};
    Counting loops({40, 1, 8, 200, 3, 17, 2, 64}, [&](int, int64_t, int) {
      const uint64_t random = mix(seed.fetch_add(1, std::memory_order_relaxed));
      if (random % 64 == 0) spin_for(std::chrono::microseconds(random / 64 % 50));
      if (random % 1024 == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pool.try_run(size, loops));
      ASSERT_TRUE(loops.ran_once()) << size << " threads, run " << i;
    }
  }
}

/// Workers that are asleep, or stuck in one tile, take no other tiles: the rest must not wait for them.
TEST(ThreadPool, TheRestIsDoneWithoutAThreadThatIsStuck) {
  ThreadPool pool(3);
  std::atomic<int64_t> done{0};
  std::atomic<bool> stuck{false};
  constexpr int64_t kTiles = 300;
  Counting loops({kTiles}, [&](int, int64_t, int thread) {
    if (thread != 0 && !stuck.exchange(true)) {
      // All that is not claimed by this very chunk, an eighth of a third, must get done meanwhile.
      const auto deadline = Clock::now() + std::chrono::seconds(60);
      while (done < kTiles - kTiles / 3 / 8 - 1 && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_LT(Clock::now(), deadline);
    }
    ++done;
  });
  for (int i = 0; i < 20; ++i) {
    done = 0;
    stuck = false;
    ASSERT_TRUE(pool.try_run(3, loops));
    ASSERT_TRUE(loops.ran_once());
  }
}

TEST(ThreadPool, WorksAfterItsThreadsFellAsleep) {
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i) {
    // One thread is late: the other must sleep until the loop is over, and wake up again.
    Counting loops({2, 2}, [&](int loop, int64_t tile, int) {
      if (tile == (i + loop) % 2) std::this_thread::sleep_for(milliseconds(2));
    });
    ASSERT_TRUE(pool.try_run(2, loops));
    ASSERT_TRUE(loops.ran_once());
    std::this_thread::sleep_for(milliseconds(i % 3));
  }
}

TEST(ThreadPool, ABusyPoolDeclines) {
  ThreadPool pool(2);
  std::atomic<int> stage{0};
  Counting hold({1}, [&](int, int64_t, int) {
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  std::thread holder([&] { EXPECT_TRUE(pool.try_run(2, hold)); });
  while (stage != 1) std::this_thread::yield();
  Counting loops({5});
  EXPECT_FALSE(pool.try_run(2, loops));
  stage = 2;
  holder.join();
  EXPECT_TRUE(hold.ran_once());
  EXPECT_TRUE(pool.try_run(1, loops));
  EXPECT_TRUE(loops.ran_once()) << "a pool that declined called nothing";
}

/// Four times as many threads as CPUs, many loops: bounded spinning must leave the CPU to those that have work.
TEST(ThreadPool, OversubscriptionDoesNotExplode) {
  const int threads = 4 * runtime::affinity_cpus();
  ThreadPool pool(threads);
  const auto start = Clock::now();
  Counting loops(std::vector<int64_t>(10, threads));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pool.try_run(threads, loops));
    ASSERT_TRUE(loops.ran_once());
  }
  // 500 loops; a scheduler slice (4 ms) at each for each waiting thread would take more than 6 s.
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
}

/// Lists that die as soon as they are over, from several callers: a worker that is late must touch none of them.
TEST(ThreadPool, ManyCallersShareOnePool) {
  ThreadPool pool(3);
  const auto call = [&](int64_t i) {
    auto loops = std::make_unique<Counting>(std::vector<int64_t>{i % 5, 3, i % 7 + 1});
    if (!pool.try_run(2 + static_cast<int>(i % 2), *loops)) run_alone(*loops);
    EXPECT_TRUE(loops->ran_once());
  };
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int64_t i = 0; i < 1000; ++i) call(i);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

/// The numbers of loops wrap around, and shares are renewed long before.
TEST(ThreadPool, LoopNumbersWrapAround) {
  for (const uint32_t before : {0xffff'ffffu - 50, (1u << 30) - 50, (1u << 31) - 50}) {
    ThreadPool pool(3, before);
    Counting wide({9, 0, 2, 50}), narrow({2, 2});
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pool.try_run(i < 90 ? 2 : 3, narrow));
      ASSERT_TRUE(narrow.ran_once());
      ASSERT_TRUE(pool.try_run(3 - i % 2, wide));
      ASSERT_TRUE(wide.ran_once());
    }
  }
}

TEST(ThreadPool, PoolsEndWhileWorkersAreLate) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(4);
    Counting loops({1, 1});
    ASSERT_TRUE(pool.try_run(4, loops));
    ASSERT_TRUE(loops.ran_once());
  }
}

TEST(ThreadPool, UsableCpusFollowTheAffinityMask) {
  if (runtime::affinity_cpus() < 2) GTEST_SKIP() << "one CPU";
  ThreadPool pool(2);
  EXPECT_EQ(pool.usable_cpus(), runtime::affinity_cpus());
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  for (int i = 0; i < 100; ++i) pool.usable_cpus();
  EXPECT_EQ(pool.usable_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  // A thread that slept within a list is reason enough to look at once: far less than 64 questions.
  std::atomic<bool> both{false};
  Counting loops({2}, [&](int, int64_t tile, int thread) {
    if (thread == 1) both = true;
    if (tile == 1) std::this_thread::sleep_for(milliseconds(5));
    for (const auto end = Clock::now() + milliseconds(20); tile == 0 && !both && Clock::now() < end;) {
    }
  });
  int lists = 0;
  do {
    ASSERT_TRUE(pool.try_run(2, loops));
  } while (pool.usable_cpus() == 1 && ++lists < 20);
  EXPECT_LT(lists, 20);
  EXPECT_EQ(pool.usable_cpus(), runtime::affinity_cpus());
}

TEST(ThreadPool, TheProcessHasOneAsLargeAsItsAffinityMask) {
  EXPECT_EQ(&ThreadPool::of_process(), &ThreadPool::of_process());
  EXPECT_EQ(ThreadPool::of_process().size(), runtime::affinity_cpus());
}

}  // namespace
}  // namespace tw
