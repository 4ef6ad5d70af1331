// The thread pool: regions, barriers, business, sleeping, too many threads.
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace tw {
namespace {

using runtime::Team;
using runtime::ThreadPool;
using Clock = std::chrono::steady_clock;

/// Runs a lambda taking const Team& as a region.
template <typename F>
bool run(ThreadPool& pool, int threads, F& body) {
  return pool.try_run(
      threads, [](void* state, const Team& team) { (*static_cast<F*>(state))(team); }, &body);
}

TEST(ThreadPool, EveryThreadRunsOnce) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadPool pool(size);
    ASSERT_EQ(pool.size(), size);
    for (int wanted = 1; wanted <= size + 1; ++wanted) {
      std::vector<int> ran(8, 0);
      auto body = [&](const Team& team) {
        ran[static_cast<size_t>(team.thread())] += 1;
        EXPECT_EQ(team.threads(), std::min(wanted, size));
      };
      ASSERT_TRUE(run(pool, wanted, body));
      EXPECT_EQ(std::accumulate(ran.begin(), ran.end(), 0), std::min(wanted, size));
      EXPECT_EQ(*std::max_element(ran.begin(), ran.end()), 1);
    }
  }
}

/// Writes without atomics on both sides of barriers: a missing happens-before is a wrong sum, or TSan's finding.
TEST(ThreadPool, BarriersOrderWrites) {
  ThreadPool pool(3);
  for (int region = 0; region < 300; ++region) {
    const int threads = region % 3 + 1;
    std::vector<int64_t> values(3, 0);
    int wrong = 0;
    auto body = [&](const Team& team) {
      const auto me = static_cast<size_t>(team.thread());
      for (int phase = 1; phase <= 10; ++phase) {
        values[me] = phase * 100 + team.thread();
        team.barrier();
        const auto other = (me + 1) % static_cast<size_t>(threads);
        if (values[other] != phase * 100 + static_cast<int64_t>(other)) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        team.barrier();
      }
    };
    ASSERT_TRUE(run(pool, threads, body));
    ASSERT_EQ(wrong, 0) << region;
  }
}

TEST(ThreadPool, WorksAfterItsThreadsFellAsleep) {
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i) {
    int64_t values[2] = {0, 0};
    auto body = [&](const Team& team) {
      // One thread is late: the other must sleep in the barrier and in the join, and wake up again.
      if (team.thread() == i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      team.barrier();
      if (team.thread() != i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      values[team.thread()] = i + 1;
    };
    ASSERT_TRUE(run(pool, 2, body));
    EXPECT_EQ(values[0] + values[1], 2 * (i + 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, ABusyPoolDeclines) {
  ThreadPool pool(2);
  std::atomic<int> stage{0};
  auto hold = [&](const Team& team) {
    if (team.thread() != 0) return;
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  };
  std::thread holder([&] { EXPECT_TRUE(run(pool, 2, hold)); });
  while (stage != 1) std::this_thread::yield();
  int ran = 0;
  auto body = [&](const Team&) { ++ran; };
  EXPECT_FALSE(run(pool, 2, body));
  EXPECT_EQ(ran, 0);
  stage = 2;
  holder.join();
  EXPECT_TRUE(run(pool, 1, body));
  EXPECT_EQ(ran, 1);
}

/// Four times as many threads as CPUs, many barriers: bounded spinning must leave the CPU to those that have work.
TEST(ThreadPool, OversubscriptionDoesNotExplode) {
  const int threads = 4 * runtime::affinity_cpus();
  ThreadPool pool(threads);
  const auto start = Clock::now();
  for (int region = 0; region < 50; ++region) {
    auto body = [](const Team& team) {
      for (int i = 0; i < 10; ++i) team.barrier();
    };
    ASSERT_TRUE(run(pool, threads, body));
  }
  // 500 barriers; a scheduler slice (4 ms) at each for each waiting thread would take more than 6 s.
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
}

TEST(ThreadPool, ManyCallersShareOnePool) {
  ThreadPool pool(2);
  std::atomic<int64_t> total{0};
  const auto call = [&] {
    std::atomic<int> ran{0};
    auto body = [&](const Team& team) {
      team.barrier();
      ran += team.threads() == 1 ? 2 : 1;
    };
    if (!run(pool, 2, body)) body(Team());
    total += ran;
  };
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) call();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 500 * 2);
}

TEST(ThreadPool, TheProcessHasOneAsLargeAsItsAffinityMask) {
  EXPECT_EQ(&ThreadPool::of_process(), &ThreadPool::of_process());
  EXPECT_EQ(ThreadPool::of_process().size(), runtime::affinity_cpus());
}

}  // namespace
}  // namespace tw
