#include "support/parallel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace tw {
namespace {

TEST(ParallelFor, GivesTheErrorOfTheFirstThatFails) {
  const auto work = [](size_t i) {
    if (i < 2) return;
    if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others fail before
    throw std::runtime_error(std::to_string(i));
  };
  try {
    parallel_for(100, 4, work);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "2");
  }
}

TEST(ParallelFor, ThrowsWhatAPieceThrowsAndStops) {
  std::atomic<int> done = 0;
  EXPECT_THROW(parallel_for(100000, 4,
                            [&](size_t i) {
                              if (i == 3) throw std::runtime_error("three");
                              ++done;
                            }),
               std::runtime_error);
  EXPECT_LT(done, 100000);
  parallel_for(0, 4, [&](size_t) { FAIL(); });
}

TEST(ParallelFor, CallsEachOnce) {
  std::vector<std::atomic<int>> calls(1000);
  parallel_for(calls.size(), 8, [&](size_t i) { ++calls[i]; });
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace tw
