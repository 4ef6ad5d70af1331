// What people are told of two schedules of one program.
#include "schedule/difference.h"

#include <gtest/gtest.h>

namespace tw::schedule {
namespace {

Schedule tiled(int64_t factor) {
  Schedule s;
  s.split("y", "i0", {factor}).split("y", "i1", {2, 16}).reorder("y", {"i0.0", "i1.0"}).vectorize("y", "i1.2");
  return s;
}

TEST(Difference, EqualSchedulesHaveNone) { EXPECT_EQ(difference_in_words(tiled(4), tiled(4)), ""); }

TEST(Difference, TilesAreToldWithThoseOfTheChosenOne) {
  EXPECT_EQ(difference_in_words(tiled(8), tiled(4)), "y along i0 in tiles of 8 (chosen: 4)");
}

TEST(Difference, WhatOnlyOneHasIsTold) {
  Schedule more = tiled(4);
  more.unroll("y", "i0.1").implement("y", {});
  EXPECT_NE(difference_in_words(more, tiled(4)).find("y unroll i0.1"), std::string::npos);
  EXPECT_NE(difference_in_words(tiled(4), more).find("without y unroll i0.1"), std::string::npos);
}

TEST(Difference, TilesAndOrdersComeFirstAndTheRestIsCounted) {
  Schedule other;
  for (const char* stage : {"a", "b", "c", "d", "e"}) other.unroll(stage, "i0");
  other.split("y", "i0", {8});
  EXPECT_EQ(difference_in_words(other, Schedule()),
            "y along i0 in tiles of 8, a unroll i0, b unroll i0, c unroll i0, 2 more");
}

}  // namespace
}  // namespace tw::schedule
