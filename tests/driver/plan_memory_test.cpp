#include "driver/artefact/plan_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/error.h"
#include "support/math.h"

namespace tw::driver {
namespace {

bool live_together(const BufferRequest& a, const BufferRequest& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

bool share_bytes(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

// The most bytes that live in any one step, each buffer rounded up to 64 bytes: no plan can be smaller.
int64_t live_bytes_bound(std::span<const BufferRequest> requests) {
  std::map<int64_t, int64_t> change;  // step -> bytes that begin or stop to live
  for (const BufferRequest& request : requests) {
    change[request.first_step] += round_up(request.bytes, 64);
    change[request.last_step + 1] -= round_up(request.bytes, 64);
  }
  int64_t live = 0;
  int64_t max = 0;
  for (const auto& [step, bytes] : change) {
    live += bytes;
    max = std::max(max, live);
  }
  return max;
}

std::vector<BufferRequest> random_requests(std::mt19937& random, int64_t max_bytes) {
  std::vector<BufferRequest> requests(std::uniform_int_distribution<size_t>(0, 40)(random));
  for (BufferRequest& r : requests) {
    r.bytes = std::uniform_int_distribution<int64_t>(0, max_bytes)(random);
    if (random() % 3 == 0) r.bytes = round_up(r.bytes, 4096);
    r.first_step = std::uniform_int_distribution<int64_t>(0, 30)(random);
    r.last_step = r.first_step + std::uniform_int_distribution<int64_t>(0, 6)(random);
  }
  return requests;
}

void expect_valid(const std::vector<BufferRequest>& requests, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  int64_t sum = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.arena_bytes);
    sum += round_up(requests[i].bytes, 64) + (requests[i].bytes >= 4096 ? 4096 - 64 : 0);
    for (size_t j = 0; j < i; ++j) {
      if (!live_together(requests[i], requests[j])) continue;
      EXPECT_FALSE(share_bytes(plan.offsets[i], requests[i].bytes, plan.offsets[j], requests[j].bytes))
          << i << " and " << j;
      const bool large = requests[i].bytes >= 4096 && requests[j].bytes >= 4096;
      EXPECT_TRUE(!large || plan.offsets[i] % 4096 != plan.offsets[j] % 4096) << i << " and " << j;
    }
  }
  EXPECT_LE(plan.arena_bytes, sum);
  EXPECT_GE(plan.arena_bytes, live_bytes_bound(requests));
}

TEST(PlanMemory, NoTwoLiveBuffersOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, round % 2 == 0 ? 500 : 200000);
    expect_valid(requests, plan_memory(requests));
  }
}

TEST(PlanMemory, IsDeterministic) {
  std::mt19937 random(8);
  const std::vector<BufferRequest> requests = random_requests(random, 100000);
  EXPECT_EQ(plan_memory(requests).offsets, plan_memory(requests).offsets);
}

// A chain of layers needs two of its values at a time.
TEST(PlanMemory, ChainReusesTwoPlaces) {
  std::vector<BufferRequest> requests;
  for (int64_t step = 0; step < 50; ++step) requests.push_back({64 * 1000, step, step + 1});
  const MemoryPlan plan = plan_memory(requests);
  EXPECT_EQ(live_bytes_bound(requests), 2 * 64 * 1000);
  EXPECT_LE(plan.arena_bytes, live_bytes_bound(requests) + 4096);
}

// Small sizes need no stagger: on random intervals the plan stays near the bound.
TEST(PlanMemory, StaysNearTheLowerBound) {
  std::mt19937 random(9);
  double arena = 0;
  double bound = 0;
  for (int round = 0; round < 100; ++round) {
    const std::vector<BufferRequest> requests = random_requests(random, 4000);
    arena += static_cast<double>(plan_memory(requests).arena_bytes);
    bound += static_cast<double>(live_bytes_bound(requests));
  }
  EXPECT_LE(arena, 1.15 * bound);
}

// More large buffers at once than L1 has sets: some must share, none may overlap.
TEST(PlanMemory, RunsOutOfSetsGracefully) {
  const std::vector<BufferRequest> requests(100, {8192, 0, 0});
  const MemoryPlan plan = plan_memory(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(share_bytes(plan.offsets[i], 8192, plan.offsets[j], 8192));
  }
}

TEST(PlanMemory, EmptyBuffersAndNoBuffers) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0);
  const std::vector<BufferRequest> requests = {{0, 0, 1}, {1, 0, 1}, {0, 1, 1}};
  EXPECT_EQ(plan_memory(requests).arena_bytes, 64);
}

TEST(PlanMemory, RefusesImpossibleRequests) {
  const std::vector<BufferRequest> backwards = {{8, 3, 2}};
  EXPECT_THROW(plan_memory(backwards), InternalError);
  const std::vector<BufferRequest> negative = {{-8, 0, 0}};
  EXPECT_THROW(plan_memory(negative), InternalError);
}

}  // namespace
}  // namespace tw::driver
