// Measured parameters become plausible ones.
#include "driver/machine/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/driver/machine/sample.h"

namespace tw::driver::machine {
namespace {

using test::measured_sample;

const TargetInfo kDefaults = targets::find_target("cpu").info;

TEST(Bounds, GoodParametersAreOnlyRounded) {
  TargetInfo measured = measured_sample();
  measured.levels[0].read_per_ns = 203.7;
  measured.fork_join_ns = 317;
  const TargetInfo info = plausible(measured, kDefaults);
  EXPECT_EQ(info.levels[0].read_per_ns, 200);
  EXPECT_EQ(info.fork_join_ns, 320);
  EXPECT_EQ(info.levels[1].latency_ns, 6);
  EXPECT_EQ(info.levels[0].capacity_bytes, measured.levels[0].capacity_bytes);
  EXPECT_EQ(info.parameters_from, measured.parameters_from);
}

TEST(Bounds, ImpossibleParametersAreTheDefaults) {
  const double bad[] = {0, -1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e12};
  for (const double value : bad) {
    TargetInfo measured = measured_sample();
    measured.levels[0].latency_ns = measured.levels[0].write_per_ns = value;
    measured.levels[0].chunks[0].bytes_per_ns = value;
    measured.peaks[0].flop_per_ns = measured.peaks[0].clock_ghz = value;
    measured.fork_join_ns = measured.barrier_ns = value;
    const TargetInfo info = plausible(measured, kDefaults);
    EXPECT_EQ(info.levels[0].latency_ns, two_digits(kDefaults.levels[0].latency_ns)) << value;
    EXPECT_EQ(info.levels[0].write_per_ns, two_digits(kDefaults.levels[0].write_per_ns));
    EXPECT_GT(info.levels[0].chunks[0].bytes_per_ns, 0);
    EXPECT_EQ(info.peaks[0].flop_per_ns, two_digits(kDefaults.peaks[0].flop_per_ns));
    EXPECT_EQ(info.peaks[0].clock_ghz, two_digits(kDefaults.peaks[0].clock_ghz));
    EXPECT_EQ(info.fork_join_ns, two_digits(kDefaults.fork_join_ns));
    EXPECT_EQ(info.barrier_ns, two_digits(kDefaults.barrier_ns));
  }
}

TEST(Bounds, NoLevelIsFasterThanANearerOne) {
  TargetInfo measured = measured_sample();
  const size_t last = measured.levels.size() - 1;
  measured.levels[last].latency_ns = 0.5;
  measured.levels[last].read_per_ns = measured.levels[last].all_per_ns = 5000;
  measured.levels[0].write_per_ns = 1;  // disturbed: every other level is faster, their defaults too
  TargetInfo defaults = kDefaults;
  defaults.levels.back().read_per_ns = 3;  // in order behind the sample's levels
  const TargetInfo info = plausible(measured, defaults);
  for (size_t l = 1; l < info.levels.size(); ++l) {
    const MemoryLevel &level = info.levels[l], &nearer = info.levels[l - 1];
    EXPECT_GE(level.latency_ns, nearer.latency_ns);
    EXPECT_LE(level.read_per_ns, nearer.read_per_ns);
    EXPECT_LE(level.write_per_ns, nearer.write_per_ns);
    EXPECT_LE(level.all_per_ns, nearer.all_per_ns);
    EXPECT_GE(level.all_per_ns, level.read_per_ns);
    for (size_t c = 0; c < level.chunks.size(); ++c)
      EXPECT_LE(level.chunks[c].bytes_per_ns, nearer.chunks[c].bytes_per_ns);
  }
  EXPECT_EQ(info.levels[last].read_per_ns, 3);
}

TEST(Bounds, ChunksAreNotFasterThanContiguousReads) {
  TargetInfo measured = measured_sample();
  measured.levels[0].chunks[2].bytes_per_ns = 3;
  measured.levels[0].chunks[5].bytes_per_ns = 1000;
  const TargetInfo info = plausible(measured, kDefaults);
  EXPECT_EQ(info.levels[0].chunks[2].bytes_per_ns, 3) << "prefetchers do make longer chunks slower at times";
  EXPECT_EQ(info.levels[0].chunks[5].bytes_per_ns, info.levels[0].read_per_ns);
}

TEST(Bounds, AllCoresAreAsMuchFasterThanOneAsByDefault) {
  TargetInfo measured = measured_sample(), defaults = kDefaults;
  defaults.levels[0].all_per_ns = 1.5 * defaults.levels[0].read_per_ns;
  defaults.peaks[0].all_flop_per_ns = 1.5 * defaults.peaks[0].flop_per_ns;
  measured.levels[0].all_per_ns = measured.peaks[0].all_flop_per_ns = 0;  // never undisturbed
  measured.levels[1].all_per_ns = 1;
  const TargetInfo info = plausible(measured, defaults);
  EXPECT_EQ(info.levels[0].all_per_ns, 300);
  EXPECT_EQ(info.levels[1].all_per_ns, info.levels[1].read_per_ns);
  EXPECT_EQ(info.peaks[0].all_flop_per_ns, 75);
}

TEST(Bounds, PlausibleParametersStayWhatTheyAre) {
  TargetInfo measured = measured_sample();
  measured.levels[1].read_per_ns = 1e6;
  const TargetInfo once = plausible(measured, kDefaults);
  const TargetInfo twice = plausible(once, kDefaults);
  for (size_t l = 0; l < once.levels.size(); ++l) {
    EXPECT_EQ(once.levels[l].read_per_ns, twice.levels[l].read_per_ns);
    EXPECT_EQ(once.levels[l].all_per_ns, twice.levels[l].all_per_ns);
    EXPECT_EQ(once.levels[l].chunks[0].bytes_per_ns, twice.levels[l].chunks[0].bytes_per_ns);
  }
}

TEST(Bounds, TwoDigits) {
  EXPECT_EQ(two_digits(123.4), 120);
  EXPECT_EQ(two_digits(0.0456), 0.046);
  EXPECT_EQ(two_digits(9.96), 10);
}

}  // namespace
}  // namespace tw::driver::machine
