// Alignment, reuse score and scale-up of rTiles, and the traffic of loop nests, against counting by hand.
#include "construct/rtile.h"

#include <gtest/gtest.h>

namespace tw::construct {
namespace {

using cost::Access, cost::Nest;

// c[i,j] += a[i,k] * b[k,j] with f32 elements.
Nest matmul(int64_t m, int64_t n, int64_t k) {
  Nest nest;
  nest.axes = {{"i", m}, {"j", n}, {"k", k}};
  nest.accesses = {{"a", 4, {{m, {{0, 1}}}, {k, {{2, 1}}}}},
                   {"b", 4, {{k, {{2, 1}}}, {n, {{1, 1}}}}},
                   {"c", 4, {{m, {{0, 1}}}, {n, {{1, 1}}}}}};
  return nest;
}

TEST(RTile, NextSizesAreNearEqualCutsInWholeUnits) {
  const AxisAlignment six{6, true};
  // 128 rows are 22 units of 6: cuts into 11, 2 and 1 parts waste nothing.
  EXPECT_EQ(next_aligned_axis_size(128, six, 6), 12);
  EXPECT_EQ(next_aligned_axis_size(128, six, 12), 66);
  EXPECT_EQ(next_aligned_axis_size(128, six, 66), 132);
  EXPECT_EQ(next_aligned_axis_size(128, six, 132), 0);
  EXPECT_EQ(next_aligned_axis_size(7, {1, true}, 1), 7);  // a prime has no even cut
}

TEST(RTile, FootprintsCountLinesOfContiguousRuns) {
  const Nest nest = matmul(64, 64, 64);
  // 3 rows of 20 elements: 80 bytes are two lines of 64 each.
  EXPECT_EQ(footprint_bytes(nest.accesses[0], RTile{3, 1, 20}, 64), 3 * 128);
  // Whole rows are one run.
  EXPECT_EQ(footprint_bytes(nest.accesses[0], RTile{3, 1, 64}, 64), 3 * 256);
  // A window of 3 over 8 outputs of stride 2 reads 2 * 7 + 3 elements.
  const Access window{"x", 4, {{100, {{0, 2}, {2, 1}}}}};
  EXPECT_EQ(footprint_bytes(window, RTile{8, 1, 3}, 4), 17 * 4);
}

TEST(RTile, ScoreIsSavedTrafficForEachByteOfFootprint) {
  const Nest nest = matmul(64, 64, 64);
  const RTileSpace space{nest, std::vector<AxisAlignment>(3), 1, 4};
  const RTile tile = {8, 8, 64};
  const RTile larger = {16, 8, 64};
  const double traffic = 8 * 8 * (8 * 64 + 64 * 8 + 8 * 8) * 4;
  const double less = 4 * 8 * (16 * 64 + 64 * 8 + 16 * 8) * 4;
  EXPECT_DOUBLE_EQ(tile_traffic(space, tile), traffic);
  EXPECT_DOUBLE_EQ(tile_traffic(space, larger), less);
  EXPECT_DOUBLE_EQ(reuse_score(space, tile, 0, 16), (traffic - less) / ((8 * 64 + 8 * 8) * 4));
  // A reduction axis saves nothing by the formula: both operands grow with it.
  EXPECT_LE(reuse_score(space, {8, 8, 32}, 2, 64), reuse_score(space, {8, 8, 32}, 0, 16));
}

TEST(RTile, ScaleUpFillsTheLevelAndNotMore) {
  const Nest nest = matmul(256, 256, 64);
  RTileSpace space{nest, {{4, true}, {8, true}, {1, false}}, 0, 64};
  const int64_t capacity = 32 * 1024;
  const std::vector<ScaledTile> found = scale_up(space, {4, 8, 64}, capacity, 10, 4);
  ASSERT_FALSE(found.empty());
  for (const ScaledTile& t : found) {
    EXPECT_LE(footprint_bytes(nest, t.tile, 64), capacity);
    EXPECT_EQ(t.tile[0] % 4, 0);
    EXPECT_EQ(t.tile[1] % 8, 0);
    EXPECT_EQ(t.tile[2], 64);
    EXPECT_LT(tile_traffic(space, t.tile), tile_traffic(space, {4, 8, 64}) / 4);
  }
  // With arithmetic that hides any loading the first tile is large enough.
  space.ns_per_point = 1e6;
  EXPECT_EQ(scale_up(space, {4, 8, 64}, capacity, 10, 4).front().tile, (RTile{4, 8, 64}));
}

TEST(Nest, TrafficOfAnOrderIsWhatItsLoopsReload) {
  Nest nest = matmul(64, 64, 64);
  nest.loops = {{1, 8, 8}, {0, 64, 1}, {2, 64, 1}, {1, 8, 1}};
  // Beyond what holds all: each tensor once.
  EXPECT_DOUBLE_EQ(traffic_bytes(nest, 1 << 20, 64), 3 * 64 * 64 * 4);
  // What holds one row of a, a panel of b and a piece of c: b's panel stays over the rows, a is read for each panel.
  const double a = 8 * 64 * 64 * 4;
  const double b = 64 * 64 * 4;
  const double c = 8 * 64 * 64;  // lines of 64 bytes, half of each used
  EXPECT_DOUBLE_EQ(traffic_bytes(nest, 256 + 64 * 64 + 64, 64), a + 2 * b + c);
}

}  // namespace
}  // namespace tw::construct
