// What people are told of two schedules of one program.
#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace tw::schedule {
namespace {

Schedule tiled(int64_t factor) {
  Schedule s;
  s.split("y", "i0", {factor}).split("y", "i1", {2, 16}).reorder("y", {"i0.0", "i1.0"}).vectorize("y", "i1.2");
  return s;
}

TEST(Difference, EqualSchedulesHaveNone) { EXPECT_EQ(difference_in_words(tiled(4), tiled(4)), ""); }

TEST(Difference, TilesAreToldWithThoseOfTheChosenOne) {
  EXPECT_EQ(difference_in_words(tiled(8), tiled(4)), "y: i0 in tiles of 8 (chosen: 4)");
}

TEST(Difference, WhatOnlyOneHasIsTold) {
  Schedule more = tiled(4);
  more.unroll("y", "i0.1").inline_stage("z");
  EXPECT_EQ(difference_in_words(more, tiled(4)), "y: unroll i0.1; z: inline");
  EXPECT_EQ(difference_in_words(tiled(4), more), "y: not unroll i0.1; z: not inline");
}

TEST(Difference, TilesAndOrdersAreNamedAndWhatFollowsFromThemIsCounted) {
  Schedule other = tiled(8);
  for (const char* stage : {"a", "b", "c"}) other.unroll(stage, "i0");
  EXPECT_EQ(difference_in_words(other, tiled(4)), "y: i0 in tiles of 8 (chosen: 4); 3 more");
}

TEST(Difference, FourAreEnough) {
  Schedule other;
  for (const char* stage : {"a", "b", "c", "d", "e", "f"}) other.unroll(stage, "i0");
  EXPECT_EQ(difference_in_words(other, Schedule()), "a: unroll i0; b: unroll i0; c: unroll i0; d: unroll i0; 2 more");
}

}  // namespace
}  // namespace tw::schedule
