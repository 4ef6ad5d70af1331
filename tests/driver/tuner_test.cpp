// Choosing among candidates with a real worker: the faster one wins, the broken one is quarantined, and what is known
// is not measured again.
#include "driver/tune/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "driver/tune/planner.h"
#include "driver/tune/tuning_database.h"
#include "measure/worker_measurer.h"
#include "support/file_lock.h"
#include "tests/harness/te_programs.h"

#ifdef TW_HAVE_LLVM
namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;
using measure::Outcome;

// Passes everything on, and changes an element of what candidate `victim` computed.
class LyingMeasurer : public measure::Measurer {
 public:
  LyingMeasurer(std::vector<std::string> command, size_t victim)
      : honest_(options(std::move(command))), victim_(victim) {}
  std::vector<measure::Measured> measure(std::span<const measure::Workload> work,
                                         const measure::MeasureOptions& o) override {
    measure::MeasureOptions changed = o;
    changed.check = [&](size_t candidate, const measure::Samples& samples) {
      measure::Samples lie = samples;
      if (candidate == victim_) {
        auto* numbers = reinterpret_cast<float*>(lie[0].data());
        numbers[lie[0].size() / 8] += 1e-3f;
      }
      return o.check(candidate, lie);
    };
    return honest_.measure(work, changed);
  }
  measure::RunOnce run(const measure::Workload& work, int threads) override { return honest_.run(work, threads); }

 private:
  static measure::WorkerOptions options(std::vector<std::string> command) {
    measure::WorkerOptions o;
    o.command = std::move(command);
    return o;
  }
  measure::WorkerMeasurer honest_;
  size_t victim_;
};

const construct::Constructor* family_named(const std::string& name) {
  static const targets::Target target = targets::find_target("cpu");
  return &*std::ranges::find(target.families, name, &construct::Constructor::family);
}

class TunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-tuner-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    options_.worker = {TW_MEASURE_WORKER};
    options_.light_us = 0;
    options_.threads = 1;
    options_.run_seconds = 0.5;
    options_.notice = [this](const std::string& text) { notices_.push_back(text); };
    options_.event = [this](const TuneEvent& event) { events_.push_back(event); };
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The candidates that `families` have for the same program, one each.
  TuneTask task(const std::vector<std::string>& families, int64_t columns = 128) {
    TuneTask out;
    out.name = "matmul";
    out.program = testing::matmul_relu(96, 160, columns);
    out.constants = {"w", "bias"};
    for (const std::string& family : families) {
      for (const construct::Constructor& c : target_.families) {
        if (c.family != family) continue;
        const construct::Candidates built = *c.construct({out.program, out.constants}, target_.info);
        out.candidates.push_back({"matmul", family, built[0].constant_layouts, built[0].schedule, 0, {}, 0});
      }
    }
    if (families.back() == "point") {
      const construct::Candidates built = *construct::construct_point({out.program, {}}, target_.info);
      out.candidates.push_back({"matmul", "point", {}, built[0].schedule, 0, {}, 0});
    }
    return out;
  }

  TuneResult choose(const TuneTask& task) {
    Tuner tuner(options_);
    const TuneResult result = tuner.choose({&task, 1}, context())[0];
    complete_ = tuner.complete();
    return result;
  }

  Cubins cubins_;
  TuneContext context() { return {target_.info, group_, {2, cubins_}, measure::CacheState::kHot, {}}; }

  fs::path folder_;
  targets::Target target_ = targets::find_target("cpu");
  GroupOptions group_ = [this] {
    GroupOptions options;
    options.lower.lower.vector_bytes = target_.info.vector_bytes;
    return options;
  }();
  TunerOptions options_;
  std::vector<std::string> notices_;
  std::vector<TuneEvent> events_;
  bool complete_ = false;
};

TEST_F(TunerTest, TheFasterCandidateWinsWhereverItStands) {
  for (const auto& families : {std::vector<std::string>{"contraction", "point"}, {"generic", "contraction", "point"}}) {
    const TuneTask t = task(families);
    const TuneResult result = choose(t);
    ASSERT_EQ(result.measured.size(), families.size());
    for (const measure::Measured& m : result.measured) EXPECT_EQ(m.outcome, Outcome::kMeasured) << m.reason;
    EXPECT_EQ(t.candidates[static_cast<size_t>(result.best)].family, "contraction");
    EXPECT_TRUE(complete_);
  }
  EXPECT_EQ(events_.size(), 5u);
  EXPECT_TRUE(notices_.empty()) << notices_[0];
}

TEST_F(TunerTest, WhatTheDatabaseKnowsIsNotMeasuredAgain) {
  options_.database = (folder_ / "tuning.db").string();
  const TuneTask t = task({"generic", "contraction", "point"});
  const TuneResult first = choose(t);
  EXPECT_EQ(database_status(options_.database, {}).measured, 3);
  options_.worker.clear();
  events_.clear();
  const TuneResult again = choose(t);
  EXPECT_EQ(again.best, first.best);
  EXPECT_TRUE(complete_);
  EXPECT_TRUE(events_.empty());
  for (size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(again.measured[c].timing.best_decile_ns, first.measured[c].timing.best_decile_ns, 1e-6);
  options_.threads = 2;  // another environment
  EXPECT_TRUE(choose(t).measured.empty());
  EXPECT_FALSE(complete_);
}

TEST_F(TunerTest, ANewCandidateIsMeasuredAgainstTheBestKnownOne) {
  options_.database = (folder_ / "tuning.db").string();
  choose(task({"generic", "point"}));
  events_.clear();
  const TuneTask t = task({"generic", "contraction", "point"});
  const TuneResult result = choose(t);
  EXPECT_EQ(t.candidates[static_cast<size_t>(result.best)].family, "contraction");
  EXPECT_EQ(database_status(options_.database, {}).measured, 3);
}

// The candidates' machine has other parameters now, and another compiler was built: nothing is measured again.
TEST_F(TunerTest, TimesOutliveTheMachineParameters) {
  options_.database = (folder_ / "tuning.db").string();
  const TuneTask t = task({"generic", "contraction", "point"});
  const TuneResult first = choose(t);
  for (MemoryLevel& level : target_.info.levels) level.read_per_ns *= 3;
  target_.info.parameters_from = "measured anew";
  options_.worker.clear();
  EXPECT_EQ(choose(t).best, first.best);
  EXPECT_TRUE(complete_);
}

// Runs nothing: neither candidates nor the reference.
class DeadMeasurer : public measure::Measurer {
 public:
  std::vector<measure::Measured> measure(std::span<const measure::Workload> work,
                                         const measure::MeasureOptions&) override {
    return std::vector<measure::Measured>(work.size());
  }
  measure::RunOnce run(const measure::Workload&, int) override { return {Outcome::kTimedOut, "no answer", {}}; }
};

// Gives the first candidates whole times and says of the last one that it was dropped.
class DroppingMeasurer : public measure::Measurer {
 public:
  std::vector<measure::Measured> measure(std::span<const measure::Workload> work,
                                         const measure::MeasureOptions&) override {
    std::vector<measure::Measured> out(work.size(), {Outcome::kMeasured, "", {1000, 1000, 12, 1}});
    out.back() = {Outcome::kMeasured, "", {5000, 5000, 1, 1}, measure::Effort::kDropped};
    return out;
  }
  measure::RunOnce run(const measure::Workload& work, int) override {
    measure::RunOnce once{Outcome::kMeasured, "", {}};
    for (const measure::Wanted& want : work.wanted) {
      const TensorType& type = work.buffers.at(static_cast<size_t>(want.buffer)).type;
      const auto count = want.elements.empty() ? type.elements() : std::ssize(want.elements);
      once.samples.emplace_back(static_cast<size_t>(count * type.type.bytes()));
    }
    return once;
  }
};

TEST_F(TunerTest, SlowCandidatesAreKeptAsRoughAndNotMeasuredAgain) {
  options_.database = (folder_ / "tuning.db").string();
  const TuneTask t = task({"generic", "contraction", "point"});
  {
    Tuner tuner(options_, std::make_unique<DroppingMeasurer>());
    const TuneResult result = tuner.choose({&t, 1}, context())[0];
    EXPECT_EQ(result.measured[2].effort, measure::Effort::kDropped);
    EXPECT_EQ(result.best, 0);
  }
  EXPECT_EQ(database_status(options_.database, {}).measured, 3);
  EXPECT_NE(export_records(options_.database, {}).find("\"is_rough\":true"), std::string::npos);
  Tuner again(options_, std::make_unique<DeadMeasurer>());
  const TuneResult known = again.choose({&t, 1}, context())[0];
  EXPECT_TRUE(again.complete()) << "nothing is left to measure";
  EXPECT_EQ(known.measured[2].effort, measure::Effort::kDropped);
}

TEST_F(TunerTest, BrokenCandidatesAreQuarantinedForEver) {
  options_.database = (folder_ / "tuning.db").string();
  // The first run of a worker is that of the reference, as slot 0: only the others can be spoiled.
  options_.worker = {TW_FAULTY_WORKER, "crash:1", "garbage:2"};
  const TuneTask t = task({"generic", "contraction", "point"});
  const TuneResult result = choose(t);
  EXPECT_EQ(result.measured[0].outcome, Outcome::kMeasured) << result.measured[0].reason;
  EXPECT_EQ(result.measured[1].outcome, Outcome::kCrashed) << result.measured[1].reason;
  EXPECT_EQ(result.measured[2].outcome, Outcome::kGarbage) << result.measured[2].reason;
  EXPECT_EQ(result.best, 0);
  EXPECT_EQ(database_status(options_.database, {}).quarantined, 2);
  options_.worker = {TW_MEASURE_WORKER};
  const TuneResult again = choose(t);
  EXPECT_EQ(again.best, result.best);
  EXPECT_EQ(again.measured[1].outcome, Outcome::kCrashed);
}

// Whoever ends workers, or takes their memory, says nothing of what they run.
TEST_F(TunerTest, ACandidateWhoseWorkerIsEndedByOthersIsNotQuarantined) {
  options_.database = (folder_ / "tuning.db").string();
  options_.worker = {TW_FAULTY_WORKER, "end:1"};
  const TuneTask t = task({"generic", "contraction", "point"});
  const TuneResult result = choose(t);
  EXPECT_EQ(result.measured[1].outcome, Outcome::kNotMeasured) << result.measured[1].reason;
  EXPECT_EQ(database_status(options_.database, {}).quarantined, 0);
  options_.worker = {TW_MEASURE_WORKER};
  EXPECT_EQ(choose(t).measured[1].outcome, Outcome::kMeasured);
}

TEST_F(TunerTest, AWorkerThatIsEndedOrStoppedOnceIsReplaced) {
  options_.run_seconds = 0.5;
  for (const std::string fault : {"end:0:", "end:1:", "hang:1:"}) {
    options_.worker = {TW_FAULTY_WORKER, fault + (folder_ / fault).string()};
    const TuneResult result = choose(task({"generic", "contraction", "point"}));
    ASSERT_EQ(result.measured.size(), 3U) << fault;
    for (const measure::Measured& m : result.measured) EXPECT_EQ(m.outcome, Outcome::kMeasured) << fault << m.reason;
  }
  EXPECT_TRUE(notices_.empty());
}

TEST_F(TunerTest, AWrongCandidateIsQuarantinedBeforeItsTimeCounts) {
  const TuneTask t = task({"contraction", "generic", "point"});
  Tuner tuner(options_, std::make_unique<LyingMeasurer>(options_.worker, 0));
  const TuneResult result = tuner.choose({&t, 1}, context())[0];
  EXPECT_EQ(result.measured[0].outcome, Outcome::kWrong);
  EXPECT_NE(result.measured[0].reason.find("reference"), std::string::npos) << result.measured[0].reason;
  EXPECT_NE(result.best, 0);
}

TEST_F(TunerTest, WithoutItsReferenceAGroupIsNotMeasuredYet) {
  const TuneTask t = task({"generic", "contraction"});
  Tuner tuner(options_, std::make_unique<DeadMeasurer>());
  EXPECT_TRUE(tuner.choose({&t, 1}, context())[0].measured.empty());
  EXPECT_FALSE(tuner.complete()) << "another compilation may measure it";
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("the reference could not be run"), std::string::npos) << notices_[0];
}

TEST_F(TunerTest, WhoMeasuresBesideAnotherIsToldOnce) {
  options_.database = (folder_ / "tuning.db").string();
  options_.lock_seconds = 0.05;
  const FileLock other(options_.database + ".measuring", {});
  ASSERT_TRUE(other.is_held());
  const std::vector<TuneTask> tasks = {task({"generic", "contraction"}), task({"generic", "contraction"}, 64)};
  Tuner tuner(options_);
  for (const TuneResult& result : tuner.choose(tasks, context())) EXPECT_EQ(result.measured.size(), 2u);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("may be disturbed"), std::string::npos) << notices_[0];
}

TEST_F(TunerTest, LightGroupsAndSingleCandidatesAreLeftAlone) {
  options_.worker = {"/nowhere/worker"};
  EXPECT_TRUE(choose(task({"contraction"})).measured.empty());
  options_.light_us = 1e6;
  EXPECT_TRUE(choose(task({"contraction", "point"})).measured.empty());
  EXPECT_TRUE(complete_);
  EXPECT_TRUE(notices_.empty());
  options_.light_us = 0;
  EXPECT_TRUE(choose(task({"contraction", "point"})).measured.empty());
  EXPECT_FALSE(complete_);
  EXPECT_EQ(notices_.size(), 1u);
}

TEST_F(TunerTest, CandidatesThatJoinAreMeasuredInLightGroupsToo) {
  std::vector<TuneTask> tasks = {task({"generic", "point"}), task({"contraction"}, 64)};
  tasks[0].uses = 100'000;
  TuneTask& light = tasks[1];
  light.candidates.clear();
  const construct::Candidates built = *family_named("contraction")->construct({light.program, {}}, target_.info);
  for (const construct::Construction& c : built)
    light.candidates.push_back({"matmul", "contraction", c.constant_layouts, c.schedule, 0, {}, 0});
  light.constants = {};
  ASSERT_GE(light.candidates.size(), 5U);
  light.candidates.resize(5);
  light.candidates.push_back(
      {"matmul", "point", {}, (*construct::construct_point({light.program, {}}, target_.info))[0].schedule, 0, {}, 0});
  light.joined = 1;
  Tuner tuner(options_);
  const TuneResult result = tuner.choose(tasks, context())[1];
  ASSERT_EQ(result.measured.size(), 6U);
  EXPECT_EQ(result.measured[3].outcome, Outcome::kNotMeasured);
  EXPECT_EQ(result.measured[4].outcome, Outcome::kNotMeasured);
  EXPECT_EQ(result.measured[5].outcome, Outcome::kMeasured) << result.measured[5].reason;
}

TEST_F(TunerTest, TheBudgetEndsMeasuring) {
  options_.budget_seconds = 1e-9;
  EXPECT_EQ(choose(task({"generic", "contraction", "point"})).best, 0);
  EXPECT_FALSE(complete_);
}

TEST_F(TunerTest, AnInterruptKeepsTheBestSoFar) {
  std::vector<TuneTask> tasks = {task({"generic", "contraction", "point"}), task({"generic", "contraction", "point"})};
  tasks[1].program = testing::matmul_relu(64, 160, 128);
  tasks[1].uses = 100;                    // it comes first
  std::atomic<bool> interrupted = false;  // asked by the threads that make code, too
  options_.event = [&](const TuneEvent&) { interrupted = true; };
  options_.interrupted = [&] { return interrupted.load(); };
  Tuner tuner(options_);
  const std::vector<TuneResult> results = tuner.choose(tasks, context());
  EXPECT_EQ(tasks[1].candidates[static_cast<size_t>(results[1].best)].family, "contraction");
  EXPECT_TRUE(results[0].measured.empty());
  EXPECT_FALSE(tuner.complete());
}

// ---- The planner above it.
Result<construct::Candidates> two_slow_ones(const construct::GroupTask& task, const TargetInfo& target) {
  construct::Candidates out = *construct::construct_point({task.program, {}}, target);
  out.push_back((*construct::construct_generic(task, target))[0]);
  return out;
}

// The first group of candidates that it sees is wrong.
class FirstWrong : public LyingMeasurer {
 public:
  using LyingMeasurer::LyingMeasurer;
  std::vector<measure::Measured> measure(std::span<const measure::Workload> work,
                                         const measure::MeasureOptions& o) override {
    if (calls_++ > 0) return LyingMeasurer::measure(work, o);
    return std::vector<measure::Measured>(work.size(), {Outcome::kWrong, "planted", {}});
  }

 private:
  int calls_ = 0;
};

TEST_F(TunerTest, WhenAllOfAFamilyAreQuarantinedTheNextOneTakesTheGroup) {
  const construct::Constructor families[] = {
      {"slow", two_slow_ones}, *family_named("contraction"), *family_named("generic")};
  target_.families = families;
  Tuner tuner(options_, std::make_unique<FirstWrong>(options_.worker, 99));
  Planner planner(target_, &tuner);
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  planner.add("first", te);
  planner.add("second", te);
  planner.decide(context());
  const plan::GroupPlan plan = planner.plan("second", te);
  EXPECT_EQ(plan.name, "second");
  EXPECT_EQ(plan.family, "contraction");
  ASSERT_GE(plan.other_candidates.size(), 2u);
  EXPECT_EQ(plan.other_candidates[0].family, "slow");
  EXPECT_EQ(plan.other_candidates[1].family, "slow");
  EXPECT_NE(plan.other_candidates[0].reason.find("wrong: planted"), std::string::npos)
      << plan.other_candidates[0].reason;
}

TEST_F(TunerTest, WithoutAnySoundCandidateNothingIsCompiled) {
  const construct::Constructor families[] = {{"slow", two_slow_ones}};
  target_.families = families;
  Tuner tuner(options_, std::make_unique<FirstWrong>(options_.worker, 99));
  Planner planner(target_, &tuner);
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  planner.add("first", te);
  try {
    planner.decide(context());
    FAIL() << "a candidate that is wrong was taken";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("group first: no candidate"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("wrong: planted"), std::string::npos) << error.what();
  }
}

Result<construct::Candidates> one_that_joins(const construct::GroupTask& task, const TargetInfo& target) {
  if (!task.libraries.contains("fast")) return declined("not installed");
  return construct::construct_generic(task, target);
}

TEST_F(TunerTest, FamiliesThatJoinStandBehindTheOwner) {
  const construct::Constructor families[] = {*family_named("contraction"),
                                             *family_named("generic"),
                                             {"fast", one_that_joins, nullptr, construct::FamilyKind::kJoins}};
  target_.families = families;
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  const auto planned = [&](Tuner* tuner, const construct::Libraries& libraries) {
    Planner planner(target_, tuner, {}, libraries);
    planner.add("group", te);
    planner.decide(context());
    return planner.plan("group", te);
  };
  const plan::GroupPlan without = planned(nullptr, {});
  EXPECT_EQ(without.other_candidates, (std::vector<plan::OtherCandidate>{{"fast", "not installed"}}));
  EXPECT_EQ(planned(nullptr, {{"fast", {1, {}}}}).family, "contraction") << "nothing says that it is better";
  Tuner tuner(options_);
  const plan::GroupPlan measured_plan = planned(&tuner, {{"fast", {1, {}}}});
  const auto is_fast = [](const plan::OtherCandidate& r) { return r.family == "fast" && r.microseconds > 0; };
  EXPECT_TRUE(measured_plan.family == "fast" || std::ranges::any_of(measured_plan.other_candidates, is_fast));
}

TEST_F(TunerTest, WithoutMeasuringAPrecedentDecides) {
  const construct::Constructor families[] = {*family_named("contraction"),
                                             *family_named("generic"),
                                             {"fast", one_that_joins, nullptr, construct::FamilyKind::kJoins}};
  target_.families = families;
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  const auto planned = [&](const Precedent& precedent) {
    Planner planner(target_, nullptr, {}, {{"fast", {1, {}}}});
    planner.add("group", te, text_of(te), precedent);
    planner.decide(context());
    return planner.plan("group", te);
  };
  EXPECT_EQ(planned({{}, "fast"}).family, "fast");
  EXPECT_EQ(planned({{}, "none of them"}).family, "contraction");
  const std::string usual = planned({}).trace.front();
  std::set<std::string> tiles;
  for (const construct::Construction& c :
       construct::construct(target_.families, {te.program, {}}, target_.info, nullptr))
    tiles.insert(c.trace.front());
  ASSERT_GT(tiles.size(), 1u);
  for (const std::string& tile : tiles) EXPECT_EQ(planned({{}, "contraction", tile}).trace.front(), tile);
  EXPECT_EQ(planned({{}, "contraction", "another tile"}).trace.front(), usual);
}

TEST_F(TunerTest, TheFirstCandidateOrOnesDrawnAtRandom) {
  target_ = targets::find_target("cpu:x86-64-v3");
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  const auto planned = [&](const construct::Sampling& sampling) {
    Planner planner(target_, nullptr, sampling);
    planner.add("group", te);
    planner.decide(context());
    return planner.plan("group", te);
  };
  const plan::GroupPlan usual = planned({});
  EXPECT_EQ(planned({.offer = construct::Offer::kFirst}).schedule, usual.schedule);
  const plan::GroupPlan drawn = planned({.seed = 5, .offer = construct::Offer::kRandom});
  EXPECT_EQ(drawn.trace.front(), "sampled from seed 5");
  EXPECT_GE(drawn.predicted_us, usual.predicted_us);
}

TEST_F(TunerTest, ThePlanHasTimesAndOtherCandidates) {
  const construct::Constructor families[] = {{"slow", two_slow_ones}};
  target_.families = families;
  Tuner tuner(options_);
  Planner planner(target_, &tuner);
  GroupTe te;
  te.program = testing::matmul_relu(96, 160, 128);
  planner.add("group", te);
  planner.decide(context());
  const plan::GroupPlan plan = planner.plan("group", te);
  EXPECT_GT(plan.microseconds, 0);
  ASSERT_EQ(plan.other_candidates.size(), 1u);
  const plan::OtherCandidate& other = plan.other_candidates[0];
  EXPECT_GT(other.microseconds, 0) << other.reason;
  EXPECT_NE(other.differs, "") << "nobody can tell which one it was";
}

}  // namespace
}  // namespace tw::driver::test
#endif
