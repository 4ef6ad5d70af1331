// The measurer with a real worker process: right answers, bad candidates, and a compiler that is stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <random>

#include "measure/fill.h"
#include "measure/tournament.h"
#include "measure/worker_measurer.h"
#include "tests/measure/machine_code.h"

namespace tw::measure {
namespace {

#if defined(__x86_64__)

WorkerOptions worker_options() {
  WorkerOptions options;
  options.command = {TW_MEASURE_WORKER};
  options.run_seconds = 0.3;
  return options;
}

// Two candidates side by side, each a piece of machine code.
std::vector<Measured> measure_both(std::vector<std::byte> first, std::vector<std::byte> second,
                                   MeasureOptions options = {}) {
  options.threads = 1;
  WorkerMeasurer measurer(worker_options());
  return measurer.measure(
      std::vector<Workload>{testing::workload(std::move(first), 1), testing::workload(std::move(second), 1)}, options);
}

TEST(Measurer, RunsOnceAndReturnsTheElementsThatAreWanted) {
  WorkerMeasurer measurer(worker_options());
  Workload w = testing::workload(testing::copy_words(), 100);
  w.wanted = {{0, {3, 99}}, {1, {}}};
  for (const int threads : {1, 2}) {
    const RunOnce once = measurer.run(w, threads);
    ASSERT_EQ(once.outcome, Outcome::kMeasured) << once.reason;
    const std::vector<std::byte> want = storage_bytes(w.buffers[1]);
    ASSERT_EQ(once.samples.size(), 2u);
    EXPECT_EQ(once.samples[1], want);
    ASSERT_EQ(once.samples[0].size(), 8u);
    EXPECT_EQ(std::memcmp(once.samples[0].data(), &want[12], 4), 0);
    EXPECT_EQ(std::memcmp(&once.samples[0][4], &want[4 * 99], 4), 0);
  }
}

TEST(Measurer, TheFasterCandidateHasTheSmallerTime) {
  MeasureOptions options;
  options.drop_ratio = 10;
  const std::vector<Measured> measured =
      measure_both(testing::count_down(600'000), testing::count_down(200'000), options);
  for (const Measured& m : measured) {
    ASSERT_EQ(m.outcome, Outcome::kMeasured) << m.reason;
    EXPECT_GE(m.timing.samples, options.samples);
    EXPECT_LE(m.timing.best_decile_ns, m.timing.median_ns);
  }
  EXPECT_LT(1.5 * measured[1].timing.best_decile_ns, measured[0].timing.best_decile_ns);
}

TEST(Measurer, ASlowCandidateIsDroppedEarly) {
  const std::vector<Measured> measured = measure_both(testing::count_down(2'000'000), testing::count_down(200'000));
  ASSERT_EQ(measured[0].outcome, Outcome::kMeasured);
  EXPECT_LT(measured[0].timing.samples, measured[1].timing.samples);
}

// The first run of all meets a processor that has rested: no candidate is dropped by it.
TEST(Measurer, OneSlowRunDropsNoCandidate) {
  const std::vector<Measured> measured = measure_both(testing::count_down(400'000), testing::slow_at_first(200'000));
  ASSERT_EQ(measured[1].outcome, Outcome::kMeasured);
  EXPECT_LT(measured[1].timing.best_decile_ns, measured[0].timing.best_decile_ns);
}

TEST(Measurer, EveryFaultHasItsOutcomeAndLeavesTheOthersAlone) {
  WorkerMeasurer measurer(worker_options());
  const std::vector<Workload> candidates = {
      testing::workload(testing::store_ones()), testing::workload(testing::crash()),
      testing::workload(testing::hang()),       testing::workload(testing::print_garbage()),
      testing::workload(testing::leave()),      testing::workload(testing::write_outside()),
      testing::workload(testing::store_ones()), testing::workload(testing::write_input()),
      testing::workload(testing::copy_words())};
  MeasureOptions options;
  options.check = [](size_t candidate, const Samples&) { return candidate == 8 ? "not ones" : ""; };
  const std::vector<Measured> measured = measurer.measure(candidates, options);
  const Outcome want[] = {Outcome::kMeasured, Outcome::kCrashed, Outcome::kTimedOut,
                          Outcome::kGarbage,  Outcome::kCrashed, Outcome::kDeclined,
                          Outcome::kMeasured, Outcome::kCrashed, Outcome::kWrong};
  for (size_t i = 0; i < candidates.size(); ++i)
    EXPECT_EQ(outcome_name(measured[i].outcome), outcome_name(want[i])) << i << ": " << measured[i].reason;
  EXPECT_NE(measured[1].reason.find("signal 4"), std::string::npos) << measured[1].reason;
  EXPECT_NE(measured[4].reason.find("exit code 3"), std::string::npos) << measured[4].reason;
  EXPECT_NE(measured[5].reason.find("outside"), std::string::npos) << measured[5].reason;
  EXPECT_NE(measured[7].reason.find("signal 11"), std::string::npos) << measured[7].reason;
  EXPECT_EQ(measured[8].reason, "not ones");
}

// 100 of 1,000 candidates crash, hang or print garbage; groups of ten as a compilation has them.
TEST(Measurer, AHundredBadCandidatesAmongAThousand) {
  WorkerOptions limits = worker_options();
  limits.run_seconds = 0.1;
  WorkerMeasurer measurer(limits);
  std::vector<int> kinds(1000, 0);
  for (int i = 0; i < 100; ++i) kinds[static_cast<size_t>(i)] = 1 + i % 3;
  std::shuffle(kinds.begin(), kinds.end(), std::mt19937(11));
  MeasureOptions options;
  options.threads = 1;
  options.samples = 2;
  const Outcome want[] = {Outcome::kMeasured, Outcome::kCrashed, Outcome::kTimedOut, Outcome::kGarbage};
  for (size_t first = 0; first < kinds.size(); first += 10) {
    std::vector<Workload> group;
    for (size_t i = first; i < first + 10; ++i) {
      const std::vector<std::byte> codes[] = {testing::store_ones(), testing::crash(), testing::hang(),
                                              testing::print_garbage()};
      group.push_back(testing::workload(codes[kinds[i]]));
    }
    const std::vector<Measured> measured = measurer.measure(group, options);
    for (size_t i = 0; i < group.size(); ++i) {
      ASSERT_EQ(outcome_name(measured[i].outcome), outcome_name(want[kinds[first + i]]))
          << first + i << ": " << measured[i].reason;
    }
  }
}

// Both pass the check of a few elements; the rest of their outputs tells them apart.
TEST(Measurer, CandidatesThatDisagreeAreNotTrusted) {
  WorkerMeasurer measurer(worker_options());
  std::vector<Workload> candidates(4, testing::workload(testing::store_ones(), 100));
  candidates[1] = testing::workload(testing::copy_words(), 100);
  for (Workload& w : candidates) w.wanted = {{0, {5}}};
  MeasureOptions options;
  std::vector<Difference> seen;
  options.disagree = [&](std::span<const Difference> differences) {
    seen.push_back(differences[0]);
    return differences[0].largest > 0.01 ? "far apart" : "";
  };
  const std::vector<Measured> measured = measurer.measure(candidates, options);
  EXPECT_EQ(measured[0].outcome, Outcome::kWrong);
  EXPECT_EQ(measured[1].outcome, Outcome::kWrong);
  EXPECT_NE(measured[1].reason.find("candidate 0"), std::string::npos) << measured[1].reason;
  EXPECT_EQ(measured[2].outcome, Outcome::kMeasured);
  EXPECT_EQ(measured[3].outcome, Outcome::kMeasured);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].element, -1);
  EXPECT_EQ(seen[1].largest, 0);
}

TEST(Difference, IsTheLargestOverAllElements) {
  const std::vector<float> a = {1, 2, NAN, INFINITY, 0.0f}, b = {1.5, 0, NAN, INFINITY, -0.0f};
  const auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  EXPECT_EQ(difference(DataType::f32(), bytes(a), bytes(b)).largest, 2);
  EXPECT_EQ(difference(DataType::f32(), bytes(a), bytes(b)).element, 1);
  EXPECT_EQ(difference(DataType::f32(), bytes(a), bytes(a)).element, -1);
  const std::vector<float> c = {1, 2, 0, INFINITY, 0.0f};
  EXPECT_EQ(difference(DataType::f32(), bytes(a), bytes(c)).largest, INFINITY);
  const std::vector<int64_t> p = {1, -5}, q = {1, 7};
  EXPECT_EQ(difference(DataType::i64(), bytes(p), bytes(q)).largest, 12);
}

TEST(Measurer, StopsWhenItIsAskedTo) {
  WorkerMeasurer measurer(worker_options());
  const std::vector<Workload> candidates(5, testing::workload(testing::store_ones()));
  MeasureOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked > 2; };
  const std::vector<Measured> measured = measurer.measure(candidates, options);
  EXPECT_EQ(measured[0].outcome, Outcome::kMeasured) << "it ran before the stop: that is its time";
  EXPECT_EQ(measured[0].effort, Effort::kCutShort);
  EXPECT_EQ(measured[4].outcome, Outcome::kNotMeasured);
  EXPECT_FALSE(is_quarantined(measured[4].outcome));
}

TEST(Measurer, WithoutAWorkerNothingIsMeasured) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"/nowhere/tilewright"}, {"/bin/true"}, {"/bin/sh", "-c", "echo garbage >&0"}}) {
    WorkerOptions options;
    options.command = command;
    WorkerMeasurer measurer(options);
    EXPECT_FALSE(measurer.available().ok());
    const std::vector<Workload> candidates(3, testing::workload(testing::store_ones()));
    for (const Measured& m : measurer.measure(candidates, {})) {
      EXPECT_EQ(m.outcome, Outcome::kNotMeasured);
      EXPECT_NE(m.reason, "");
    }
  }
}

TEST(Measurer, ColdBuffersHoldTheSame) {
  WorkerMeasurer measurer(worker_options());
  Workload w = testing::workload(testing::copy_words(), 1000);
  const std::vector<std::byte> want = storage_bytes(w.buffers[1]);
  MeasureOptions options;
  options.rotate_bytes = 20'000;  // five times the buffer
  options.samples = 4;
  options.check = [&](size_t, const Samples& samples) { return samples[0] == want ? "" : "another copy"; };
  for (const CacheState cache_state : {CacheState::kHot, CacheState::kL2Cold, CacheState::kCold}) {
    w.buffers[1].cache_state = cache_state;
    for (int round = 0; round < 7; ++round) {
      const Measured measured = measurer.measure({&w, 1}, options)[0];
      EXPECT_EQ(measured.outcome, Outcome::kMeasured) << measured.reason;
    }
  }
}

TEST(Measurer, WorkloadsThatMakeNoSenseAreRefused) {
  WorkerMeasurer measurer(worker_options());
  std::vector<Workload> candidates(3, testing::workload(testing::store_ones()));
  candidates[0].steps[0].offset = 1000;
  candidates[1].steps[0].args = {0, 2};
  candidates[2].wanted = {{0, {8}}};
  for (const Measured& m : measurer.measure(candidates, {})) EXPECT_EQ(m.outcome, Outcome::kDeclined) << m.reason;
}

#endif

TEST(Summary, IsOfQuietSamplesWhenThereAreEnough) {
  std::vector<Sample> samples;
  for (int i = 0; i < 10; ++i) samples.push_back({100.0 + i, false});
  EXPECT_EQ(summarize(samples).best_decile_ns, 100);
  for (int i = 0; i < 10; ++i) samples.push_back({200.0 + i, true});
  const Timing timing = summarize(samples);
  EXPECT_EQ(timing.best_decile_ns, 200);
  EXPECT_EQ(timing.median_ns, 204);
  EXPECT_EQ(timing.samples, 20);
  EXPECT_EQ(timing.quiet_share, 0.5);
}

TEST(Fill, ALayoutMovesElementsAndChangesNone) {
  BufferSpec plain;
  plain.type = {DataType::f32(), {3, 8}};
  plain.fill = Fill::kSigned;
  plain.seed = 5;
  BufferSpec blocked = plain;
  blocked.layout = Layout().split(1, {2, 4}).reorder({1, 0, 2}).pad(2, 0, 1);
  const std::vector<std::byte> a = storage_bytes(plain), b = storage_bytes(blocked);
  ASSERT_EQ(a.size(), 4u * 24);
  ASSERT_EQ(b.size(), 4u * 30);
  const auto* x = reinterpret_cast<const float*>(a.data());
  const auto* y = reinterpret_cast<const float*>(b.data());
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(x[i * 8 + j], y[(j / 4 * 3 + i) * 5 + j % 4]);
    EXPECT_EQ(y[i * 5 + 4], 0);
  }
}

TEST(Fill, NumbersAreTame) {
  for (const DataType type : {DataType::f16(), DataType::bf16(), DataType::f32(), DataType::f64()}) {
    BufferSpec spec;
    spec.type = {type, {1000}};
    spec.fill = Fill::kSigned;
    const std::vector<std::byte> bytes = storage_bytes(spec);
    int negative = 0;
    for (int i = 0; i < 1000; ++i) {
      double x = 0;
      if (type == DataType::f64()) std::memcpy(&x, &bytes[8 * i], 8);
      if (type == DataType::f32()) x = reinterpret_cast<const float*>(bytes.data())[i];
      if (type == DataType::f16()) x = f16_value(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
      if (type == DataType::bf16()) x = bf16_value(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
      EXPECT_GE(std::abs(x), 0.0625);
      EXPECT_LE(std::abs(x), 1);
      negative += x < 0 ? 1 : 0;
    }
    EXPECT_GT(negative, 400);
    EXPECT_LT(negative, 600);
  }
}

}  // namespace
}  // namespace tw::measure
