// Cache sizes from latency curves, and the chase that makes them.
#include "driver/machine/latency.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tw::driver::machine {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Latency of a machine whose levels end at `ends`; over the octave behind an end the misses grow.
std::vector<LatencyPoint> curve(const std::vector<int64_t>& ends, const std::vector<double>& ns, int64_t limit) {
  std::vector<LatencyPoint> points;
  for (const int64_t bytes : curve_footprints(limit)) {
    size_t l = 0;
    while (l < ends.size() && bytes > ends[l]) ++l;
    const double octaves = l == 0 ? 1 : std::log2(static_cast<double>(bytes) / static_cast<double>(ends[l - 1]));
    const double misses = std::min(octaves, 1.0);
    points.push_back({bytes, l == 0 ? ns[0] : ns[l - 1] * std::pow(ns[l] / ns[l - 1], misses)});
  }
  return points;
}

TEST(Latency, CapacitiesOfThreeLevels) {
  const std::vector<int64_t> ends = {32 * kKiB, 512 * kKiB, 32 * kMiB};
  EXPECT_EQ(detect_capacities(curve(ends, {1.2, 4, 14, 100}, 128 * kMiB)), ends);
}

TEST(Latency, CapacitiesThatAreNoPowersOfTwo) {
  const std::vector<int64_t> found =
      detect_capacities(curve({48 * kKiB, 2 * kMiB, 35 * kMiB}, {1.3, 4.5, 26, 110}, 256 * kMiB));
  EXPECT_EQ(found, (std::vector<int64_t>{48 * kKiB, 2 * kMiB, 32 * kMiB}));
}

TEST(Latency, OneDisturbedPointIsNoStep) {
  std::vector<LatencyPoint> points = curve({32 * kKiB, 512 * kKiB, 32 * kMiB}, {1.2, 4, 14, 100}, 128 * kMiB);
  points[9].ns *= 2;  // inside L2
  EXPECT_EQ(detect_capacities(points).size(), 3u);
  EXPECT_EQ(detect_capacities(points)[1], 512 * kKiB);
}

TEST(Latency, AFlatCurveHasNoCaches) {
  EXPECT_TRUE(detect_capacities(curve({}, {90}, kMiB)).empty());
  EXPECT_TRUE(detect_capacities({}).empty());
}

TEST(Latency, WhatTheSystemSaysIsBelievedWhereTheCurveAgrees) {
  const std::vector<int64_t> claimed = {32 * kKiB, kMiB, 36 * kMiB};
  EXPECT_EQ(reconcile_capacities(claimed, {32 * kKiB, 768 * kKiB, 24 * kMiB}), claimed);
  // A guest with a share of the L3; a system that claims the L2 of four cores.
  EXPECT_EQ(reconcile_capacities(claimed, {32 * kKiB, 768 * kKiB, 6 * kMiB}),
            (std::vector<int64_t>{32 * kKiB, kMiB, 6 * kMiB}));
  EXPECT_EQ(reconcile_capacities({32 * kKiB, 4 * kMiB, 36 * kMiB}, {24 * kKiB, kMiB, 32 * kMiB}),
            (std::vector<int64_t>{32 * kKiB, kMiB, 36 * kMiB}));
  EXPECT_EQ(reconcile_capacities(claimed, {32 * kKiB, 24 * kMiB}), claimed) << "a step is missing: no evidence";
  EXPECT_EQ(reconcile_capacities({}, {32 * kKiB, kMiB}), (std::vector<int64_t>{32 * kKiB, kMiB}));
}

TEST(Latency, AChaseVisitsEveryLineOnce) {
  for (const int64_t lines : {16, 24, 128, 192, 4096, 6144, 65536, 98304}) {
    std::vector<int64_t> next(static_cast<size_t>(lines * 8), -1);
    write_chase(next.data(), lines);
    std::set<int64_t> seen;
    int64_t at = 0, nearby = 0;
    for (int64_t i = 0; i < lines; ++i) {
      ASSERT_EQ(at % 8, 0);
      seen.insert(at);
      const int64_t to = next[static_cast<size_t>(at)];
      nearby += std::abs(to - at) <= 4 * 8;
      at = to;
    }
    EXPECT_EQ(at, 0);
    EXPECT_EQ(static_cast<int64_t>(seen.size()), lines);
    EXPECT_TRUE(lines < 128 || nearby < lines / 8) << "a prefetcher of neighbouring lines would see through that";
  }
}

TEST(Latency, Footprints) {
  EXPECT_EQ(round_footprint(1), 16 * kKiB);
  EXPECT_EQ(round_footprint(130.0 * kKiB), 128 * kKiB);
  EXPECT_EQ(round_footprint(200.0 * kKiB), 192 * kKiB);
  EXPECT_EQ(round_footprint(256.0 * kMiB), 256 * kMiB);
}

}  // namespace
}  // namespace tw::driver::machine
