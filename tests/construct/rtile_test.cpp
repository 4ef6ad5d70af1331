// Alignment, reuse score and scale-up of rTiles, and the traffic of loop nests, against counting by hand.
#include "construct/rtile.h"

#include <gtest/gtest.h>

#include <set>

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

// Tiles of one axis for `multiplier`, with the first `tiles`; all but the last level are given.
int64_t next(int64_t extent, const RTiles& tiles, Multiplier multiplier, const TileAxis& axis,
             double max_waste = cost::kMaxWaste) {
  Nest nest;
  nest.axes = {{"i", extent}};
  TileSpace space{nest, {axis}, multiplier, {}};
  space.max_waste = max_waste;
  return next_aligned_axis_size(space, tiles, 0);
}

TEST(RTile, NextSizesAreNearEqualCutsInWholeUnits) {
  const TileAxis rows{.role = AxisRole::kRows};
  // 128 rows are 22 register tiles of 6: cuts into 11, 2 and 1 parts waste nothing.
  EXPECT_EQ(next(128, {{6}, {6}}, Multiplier::kCore, rows), 12);
  EXPECT_EQ(next(128, {{6}, {12}}, Multiplier::kCore, rows), 66);
  EXPECT_EQ(next(128, {{6}, {66}}, Multiplier::kCore, rows), 132);
  EXPECT_EQ(next(128, {{6}, {132}}, Multiplier::kCore, rows), 0);
  EXPECT_EQ(next(7, {{1}, {1}}, Multiplier::kCore, rows), 7);  // a prime has no even cut
}

TEST(RTile, SizesAreWholeInstructions) {
  const TileAxis rows{.role = AxisRole::kRows}, columns{.role = AxisRole::kColumns};
  EXPECT_EQ(next(256, {{0}}, Multiplier::kWarp, rows), 16);
  EXPECT_EQ(next(256, {{16}}, Multiplier::kWarp, rows), 32);
  EXPECT_EQ(next(256, {{0}}, Multiplier::kWarp, columns), 8);
  EXPECT_EQ(next(256, {{0}}, Multiplier::kWarpGroup, rows), 64);
  EXPECT_EQ(next(4096, {{248}}, Multiplier::kWarpGroup, columns), 256);
  EXPECT_EQ(next(4096, {{256}}, Multiplier::kWarpGroup, columns), 0) << "no wider instruction";
  EXPECT_EQ(next(4096, {{64}, {64}}, Multiplier::kWarpGroup, columns), 0) << "as wide as its block";
  EXPECT_EQ(next(4096, {{16}, {32}}, Multiplier::kWarp, rows), 64) << "warps in powers of two";
  EXPECT_EQ(next(4096, {{64}, {64}, {128}}, Multiplier::kWarpGroup, columns), 256);
  EXPECT_EQ(next(4096, {{64}, {64}, {256}}, Multiplier::kWarpGroup, columns), 0) << "no cluster of eight";
  EXPECT_EQ(next(60, {{2}}, Multiplier::kWarp, {.role = AxisRole::kBatch}), 3) << "products are not padded";
  EXPECT_EQ(next(60, {{6}}, Multiplier::kWarp, {.role = AxisRole::kBatch}), 10);
}

TEST(RTile, PaddingIsBoundedAfterAllRounding) {
  const TileAxis rows{.role = AxisRole::kRows};
  // 17 rows in tiles of 16 or of 32 are padded to 32: by 88 %.
  EXPECT_EQ(next(17, {{0}}, Multiplier::kWarp, rows, .03), 0);
  EXPECT_EQ(next(17, {{16}}, Multiplier::kWarp, rows, .03), 0);
  EXPECT_EQ(next(17, {{0}}, Multiplier::kWarp, rows, .96), 16);
  EXPECT_EQ(next(17, {{16}}, Multiplier::kWarp, rows, .96), 32);
  // 784 rows: tiles of 80 pad to 800, those of 64 to 832.
  EXPECT_EQ(next(784, {{48}}, Multiplier::kWarp, rows, .03), 80);
  EXPECT_EQ(next(784, {{48}}, Multiplier::kWarp, rows, .07), 64);
}

TEST(RTile, SizesAreWholeTransactionsWhereThosePadLittle) {
  const TileAxis columns{.role = AxisRole::kColumns, .transaction = 32};
  EXPECT_EQ(next(1024, {{0}}, Multiplier::kWarp, columns), 32);
  EXPECT_EQ(next(1000, {{0}}, Multiplier::kWarp, columns), 32) << "1024 columns are 2.4 % more";
  EXPECT_EQ(next(40, {{0}}, Multiplier::kWarp, columns), 8);
  EXPECT_EQ(next(40, {{0}}, Multiplier::kWarp, columns, .25), 16);
  EXPECT_EQ(next(1024, {{4}, {4}}, Multiplier::kThread, columns), 32) << "of neighbouring threads together";
}

TEST(RTile, NoBoxBeginsBeyondItsTensor) {
  const TileAxis columns{.role = AxisRole::kColumns, .transaction = 64, .box = 64};
  EXPECT_EQ(next(192, {{64}}, Multiplier::kWarpGroup, columns, .5), 192) << "two of 128 have an empty box";
  EXPECT_EQ(next(200, {{64}}, Multiplier::kWarpGroup, columns, .5), 128) << "256 columns end in the last box";
}

// The largest that fits of a reduction alone.
int64_t largest(int64_t extent, Multiplier multiplier, int64_t room) {
  Nest nest;
  nest.axes = {{"k", extent}};
  const TileSpace space{nest, {{AxisRole::kSteps, 64}}, multiplier, {}};
  return largest_aligned_size(space, {{0}}, 0, [=](int64_t size) { return size <= room; });
}

TEST(RTile, ReductionsHaveARuleOfTheirOwn) {
  // Up to a transaction, padded by a sixth at most.
  EXPECT_EQ(largest(4096, Multiplier::kWarp, 4096), 64);
  EXPECT_EQ(largest(144, Multiplier::kWarp, 4096), 48);
  EXPECT_EQ(largest(100, Multiplier::kWarp, 4096), 16);
  EXPECT_EQ(largest(1, Multiplier::kWarp, 4096), 0);
  // A core's are equal parts of whole unrolled steps.
  EXPECT_EQ(largest(576, Multiplier::kCore, 200), 192);
  EXPECT_EQ(largest(576, Multiplier::kCore, 1000), 576);
  EXPECT_EQ(largest(578, Multiplier::kCore, 200), 0) << "two times a square of primes";
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
  TileSpace space{nest, std::vector<TileAxis>(3), Multiplier::kCore, {}};
  space.line_bytes = 4;
  // Of a tile [i, j, k] each of (64/i)(64/j)(64/k) loads (i k + k j + i j) elements.
  const auto traffic = [](double i, double j, double k) {
    return 64 * 64 * 64 / (i * j * k) * (i * k + k * j + i * j) * 4;
  };
  const RTile tile = {8, 8, 64};
  EXPECT_DOUBLE_EQ(tile_traffic(space, tile), traffic(8, 8, 64));
  EXPECT_DOUBLE_EQ(reuse_score(space, tile, 0, 16), (traffic(8, 8, 64) - traffic(16, 8, 64)) / ((8 * 64 + 8 * 8) * 4));
  EXPECT_DOUBLE_EQ(reuse_score(space, {16, 8, 64}, 0, 32),
                   (traffic(16, 8, 64) - traffic(32, 8, 64)) / ((16 * 64 + 16 * 8) * 4));
  EXPECT_DOUBLE_EQ(reuse_score(space, {16, 8, 64}, 1, 16),
                   (traffic(16, 8, 64) - traffic(16, 16, 64)) / ((8 * 64 + 16 * 8) * 4));
  EXPECT_GT(reuse_score(space, {16, 8, 64}, 1, 16), reuse_score(space, {16, 8, 64}, 0, 32)) << "squares save most";
  // A reduction axis saves nothing by the formula: both operands grow with it.
  EXPECT_LE(reuse_score(space, {8, 8, 32}, 2, 64), reuse_score(space, {8, 8, 32}, 0, 16));
}

TEST(RTile, ScaleUpFillsTheLevelAndNotMore) {
  const Nest nest = matmul(256, 256, 64);
  const int64_t capacity = 32 * 1024;
  const auto fits = [&](const RTiles& t) { return footprint_bytes(nest, t.back(), 64) <= capacity; };
  TileSpace space{nest, {{AxisRole::kRows}, {AxisRole::kColumns}, {}}, Multiplier::kCore, {{"L2", fits, 10}}};
  const RTile registers = {4, 8, 64};
  const std::vector<RTiles> found = scale_up(space, {registers, registers}, 4);
  ASSERT_FALSE(found.empty());
  for (const RTiles& t : found) {
    const RTile& block = t.back();
    EXPECT_TRUE(fits(t));
    EXPECT_EQ(block[0] % 4, 0);
    EXPECT_EQ(block[1] % 8, 0);
    EXPECT_EQ(block[2], 64);
    EXPECT_LT(tile_traffic(space, block), tile_traffic(space, registers) / 4);
  }
  // With arithmetic that hides any loading the first tile is large enough.
  space.ns_per_point = 1e6;
  EXPECT_EQ(scale_up(space, {registers, registers}, 4).front().back(), registers);
}

// Each level is made of whole tiles of the one before it; tiles on the way are results where a level says so.
TEST(RTile, ScaleUpGoesThroughAllLevels) {
  const Nest nest = matmul(64, 64, 16);
  const auto at_most = [](int64_t points) {
    return [=](const RTiles& t) { return t.back()[0] * t.back()[1] <= points; };
  };
  TileSpace space{nest, {{AxisRole::kRows}, {AxisRole::kColumns}, {}}, Multiplier::kWarp, {}};
  const auto tiles_of = [&](bool passed) {
    space.levels = {{"registers", at_most(512), 1, passed}, {"shared memory", at_most(2048), 1, passed}};
    std::set<RTiles> all;
    for (const RTiles& t : scale_up(space, {{0, 0, 16}}, 1000)) all.insert(t);
    return all;
  };
  for (const RTiles& t : tiles_of(true)) {
    ASSERT_EQ(t.size(), 2U);
    for (size_t axis = 0; axis < 3; ++axis) EXPECT_EQ(t[1][axis] % t[0][axis], 0);
  }
  EXPECT_TRUE(tiles_of(true).contains({{16, 8, 16}, {16, 8, 16}}));
  EXPECT_FALSE(tiles_of(false).contains({{16, 8, 16}, {16, 8, 16}}));
  EXPECT_TRUE(tiles_of(false).contains({{16, 32, 16}, {32, 64, 16}}));
}

TEST(RTile, TheBoundOfWasteGrowsUntilThereAreEnough) {
  const Nest nest = matmul(17, 64, 16);
  const auto any = [](const RTiles&) { return true; };
  TileSpace space{
      nest, {{AxisRole::kRows}, {AxisRole::kColumns}, {}}, Multiplier::kWarp, {{"registers", any, 1, true}}};
  EXPECT_TRUE(scale_up(space, {{0, 0, 16}}, 100).empty()) << "17 rows are padded to 32";
  EXPECT_EQ(scale_up_growing(space, {{0, 0, 16}}, 100, 1, any).front().front()[0] % 16, 0);
  // One or two instructions of rows, by 8, 16, 24, 32 or 64 columns, which pad less.
  EXPECT_EQ(scale_up_growing(space, {{0, 0, 16}}, 100, 1, any).size(), 10U);
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
