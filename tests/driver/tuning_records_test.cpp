// What measured times are kept under, and what is made of them later.
#include "driver/tune/tuning_records.h"

#include <gtest/gtest.h>

#include <limits>

#include "measure/protocol.h"
#include "support/build_id.h"
#include "targets/registry.h"
#include "tests/harness/te_programs.h"

namespace tw::driver::test {
namespace {

using measure::Effort;
using measure::Measured;
using measure::Outcome;

class TuningRecords : public ::testing::Test {
 protected:
  database::TaskKey key(const TargetInfo& target, const std::string& device = "") {
    TuneTask task;
    task.program = testing::matmul_relu(8, 16, 32);
    task.constants = {"w"};
    TuneContext context{target, group_, {1, cubins_}, measure::CacheState::kHot, {}};
    context.device = device;
    return task_key(task, context, options_);
  }

  Cubins cubins_;
  GroupOptions group_;
  TunerOptions options_;
  TargetInfo cpu_ = targets::find_target("cpu").info;
};

// Another build of the compiler, or machine parameters that only predictions are made of, make no other times.
TEST_F(TuningRecords, TimesOutliveBuildsAndParameters) {
  const database::TaskKey first = key(cpu_);
  EXPECT_EQ(first.environment.find(build_id()), std::string::npos);
  EXPECT_EQ(first.environment.find("build"), std::string::npos) << first.environment;
  TargetInfo measured = cpu_;
  for (MemoryLevel& level : measured.levels) level.read_per_ns *= 2, level.latency_ns += 1, level.chunks.clear();
  measured.levels.back().capacity_bytes *= 2;
  for (VectorPeak& peak : measured.peaks) peak.flop_per_ns *= 3;
  measured.flop_per_ns *= 3, measured.fork_join_ns += 100;
  measured.parameters_from = "measured on another day";
  EXPECT_EQ(key(measured), first);
}

TEST_F(TuningRecords, WhatTimesDependOnIsInTheirKey) {
  const database::TaskKey first = key(cpu_);
  EXPECT_TRUE(first.environment.starts_with(code_versions(cpu_))) << first.environment;
  EXPECT_NE(first.environment.find(fmt::format("protocol {} {}\n", measure::kMeasuringProtocol, measure::kRunnerBuild)),
            std::string::npos);
  EXPECT_NE(first.program.find("constant w\n"), std::string::npos);
  const auto differs = [&](const auto& change) {
    TargetInfo other = cpu_;
    change(other);
    return key(other) != first;
  };
  EXPECT_TRUE(differs([](TargetInfo& t) { t.name += "x"; }));
  EXPECT_TRUE(differs([](TargetInfo& t) { t.compute_units += 1; }));
  EXPECT_TRUE(differs([](TargetInfo& t) { t.features.emplace_back("made-up"); }));
  EXPECT_TRUE(differs([](TargetInfo& t) { t.levels[0].capacity_bytes *= 2; })) << "constants are kept out of caches";
  options_.threads = 3;
  EXPECT_NE(key(cpu_), first);
  options_.threads = 0;
  group_.lower.disabled = {"unroll"};
  EXPECT_NE(key(cpu_), first);
  const TargetInfo gpu = targets::find_target("cuda:sm_90a").info;
  EXPECT_NE(key(gpu, "one"), key(gpu, "another"));
}

std::vector<plan::GroupPlan> candidates(size_t count) {
  std::vector<plan::GroupPlan> out;
  for (size_t c = 0; c < count; ++c) {
    out.push_back({"g", "contraction"});
    out.back().schedule.split("y", "i0", {static_cast<int64_t>(c) + 1});
  }
  return out;
}

Measured measured(double ns, Effort effort = Effort::kWhole) {
  return {Outcome::kMeasured, "", {ns, ns + 1, 12, 1}, effort};
}

// What a later compilation knows after `before` was stored.
std::vector<Measured> known_after(const std::vector<Measured>& before, double drop_ratio = 1.25) {
  const std::vector<plan::GroupPlan> plans = candidates(before.size());
  std::vector<database::Record> records;
  for (size_t c = 0; c < before.size(); ++c) {
    if (const auto record = to_record(plans[c], before[c])) records.push_back(*record);
  }
  return known_results(plans, records, drop_ratio);
}

TEST_F(TuningRecords, RoughTimesAreFlaggedAndSkipWhatIsSlow) {
  const std::vector<Measured> known =
      known_after({measured(100), measured(140, Effort::kDropped), measured(90, Effort::kCutShort), {}});
  EXPECT_EQ(known[0].effort, Effort::kWhole);
  EXPECT_EQ(known[1].outcome, Outcome::kMeasured) << "it need not be measured again";
  EXPECT_EQ(known[1].effort, Effort::kDropped);
  EXPECT_EQ(known[1].timing.best_decile_ns, 140);
  EXPECT_EQ(known[2].outcome, Outcome::kNotMeasured) << "what was cut short is not kept";
  EXPECT_EQ(known[3].outcome, Outcome::kNotMeasured);
}

TEST_F(TuningRecords, RoughTimesNeverWin) {
  // Slower than what is no candidate any more, and maybe the fastest one now.
  EXPECT_EQ(known_after({measured(140, Effort::kDropped)})[0].outcome, Outcome::kNotMeasured);
  EXPECT_EQ(known_after({measured(150), measured(140, Effort::kDropped)})[1].outcome, Outcome::kNotMeasured);
  // --measure-all measures all of them to the end.
  const double all = std::numeric_limits<double>::infinity();
  EXPECT_EQ(known_after({measured(100), measured(140, Effort::kDropped)}, all)[1].outcome, Outcome::kNotMeasured);
}

TEST_F(TuningRecords, TheQuarantineHasNoRoughOnes) {
  Measured refused{Outcome::kDeclined, "others take less", {}, Effort::kDropped};
  EXPECT_FALSE(to_record(candidates(1)[0], refused)->is_rough);
  EXPECT_EQ(known_after({refused})[0].outcome, Outcome::kDeclined);
  refused.effort = Effort::kCutShort;
  EXPECT_EQ(known_after({refused})[0].outcome, Outcome::kNotMeasured);
}

}  // namespace
}  // namespace tw::driver::test
