#include "driver/artefact/step_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tw::driver {
namespace {

using Waits = std::vector<std::vector<int64_t>>;
using Steps = std::vector<std::vector<MemoryAccess>>;

constexpr bool kReads = false, kWrites = true;

TEST(StepOrder, OnlyWhatIsSharedIsWaitedFor) {
  // 0 writes a, 1 and 2 read it and write b and c, 3 reads both.
  const Steps steps = {{{0, 0, 8, kWrites}},
                       {{0, 0, 8, kReads}, {0, 8, 16, kWrites}},
                       {{0, 4, 8, kReads}, {0, 16, 24, kWrites}},
                       {{0, 8, 24, kReads}}};
  EXPECT_EQ(waits_of(steps), (Waits{{}, {0}, {0}, {1, 2}}));
}

TEST(StepOrder, MemoriesAreApart) {
  EXPECT_EQ(waits_of(Steps{{{0, 0, 8, kWrites}}, {{1, 0, 8, kWrites}}, {{1, 7, 8, kReads}}}), (Waits{{}, {}, {1}}));
}

TEST(StepOrder, PlacesThatAreTakenAgainAreWaitedFor) {
  // 2 writes where 0 has read: it waits, and for 1, which wrote what 0 read, by way of it.
  const Steps steps = {{{0, 0, 8, kWrites}}, {{0, 0, 8, kReads}, {0, 8, 16, kWrites}}, {{0, 0, 4, kWrites}}};
  EXPECT_EQ(waits_of(steps), (Waits{{}, {0}, {1}}));
}

// Whether `step` starts after the end of `earlier`.
bool is_behind(const Waits& waits, size_t step, size_t earlier) {
  return std::ranges::any_of(waits[step], [&](int64_t w) {
    return w == static_cast<int64_t>(earlier) || is_behind(waits, static_cast<size_t>(w), earlier);
  });
}

TEST(StepOrder, RandomStepsWaitForAllTheyConflictWithAndForNothingTwice) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 50; ++round) {
    Steps steps(12);
    for (auto& step : steps) {
      for (int a = 0; a < 3; ++a) {
        const int64_t begin = draw(20);
        step.push_back({draw(2), begin, begin + 1 + draw(4), draw(3) == 0});
      }
    }
    const Waits waits = waits_of(steps);
    for (size_t s = 0; s < steps.size(); ++s) {
      for (size_t e = 0; e < s; ++e) {
        const bool conflict = std::ranges::any_of(steps[s], [&](const MemoryAccess& a) {
          return std::ranges::any_of(steps[e], [&](const MemoryAccess& b) {
            return (a.writes || b.writes) && a.memory == b.memory && a.begin < b.end && b.begin < a.end;
          });
        });
        if (conflict) EXPECT_TRUE(is_behind(waits, s, e)) << s << " and " << e;
      }
      for (const int64_t w : waits[s]) {
        const bool twice = std::ranges::any_of(waits[s], [&](int64_t other) {
          return other != w && is_behind(waits, static_cast<size_t>(other), static_cast<size_t>(w));
        });
        EXPECT_FALSE(twice) << s << " waits for " << w;
      }
    }
  }
}

}  // namespace
}  // namespace tw::driver
