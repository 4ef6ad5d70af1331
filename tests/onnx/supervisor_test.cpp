#include "tests/onnx/node_tests/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace tw::conformance {
namespace {

Outcome behave(const Case& test) {
  if (test.name == "crash") raise(SIGABRT);  // which sanitizers leave alone
  if (test.name == "leave") _exit(3);
  while (test.name == "wait") pause();
  for (volatile int i = 0; test.name == "spin";) i = i + 1;
  static int cases_before = 0;
  if (test.name == "count") return {Verdict::kPassed, std::to_string(cases_before)};
  ++cases_before;
  if (test.name == "break") return {Verdict::kBroken, "an internal error"};
  if (test.name == "refuse") return {Verdict::kRefused, "Conv is not supported"};
  return {Verdict::kPassed, std::string(100'000, 'x'), true};
}

std::vector<Case> cases_named(const std::vector<std::string>& names) {
  std::vector<Case> cases;
  for (const std::string& name : names) cases.push_back({name, "", {}});
  return cases;
}

std::vector<Outcome> supervise(const std::vector<std::string>& names, int jobs) {
  SupervisorOptions options;
  options.jobs = jobs;
  options.case_limit = std::chrono::milliseconds(200);
  return run_supervised(
      cases_named(names), [] { return CaseRunner(behave); }, options);
}

TEST(Supervisor, GivesEveryOutcomeInOrder) {
  for (int jobs : {1, 2, 5}) {
    const std::vector<Outcome> outcomes = supervise({"pass", "refuse", "pass"}, jobs);
    ASSERT_EQ(outcomes.size(), 3u);
    EXPECT_EQ(outcomes[0].verdict, Verdict::kPassed);
    EXPECT_EQ(outcomes[0].reason.size(), 100'000u);
    EXPECT_TRUE(outcomes[0].bound_constants);
    EXPECT_EQ(outcomes[1].verdict, Verdict::kRefused);
    EXPECT_EQ(outcomes[1].reason, "Conv is not supported");
    EXPECT_FALSE(outcomes[1].bound_constants);
    EXPECT_EQ(outcomes[2].verdict, Verdict::kPassed);
  }
  EXPECT_TRUE(supervise({}, 2).empty());
}

TEST(Supervisor, CrashesAndHangsBreakTheirOwnCaseOnly) {
  for (int jobs : {1, 2}) {
    const std::vector<Outcome> outcomes =
        supervise({"pass", "crash", "pass", "wait", "leave", "refuse", "crash", "spin"}, jobs);
    ASSERT_EQ(outcomes.size(), 8u);
    for (size_t broken : {1u, 3u, 4u, 6u, 7u}) EXPECT_EQ(outcomes[broken].verdict, Verdict::kBroken) << broken;
    for (size_t passed : {0u, 2u}) EXPECT_EQ(outcomes[passed].verdict, Verdict::kPassed) << passed;
    EXPECT_EQ(outcomes[5].verdict, Verdict::kRefused);
    EXPECT_NE(outcomes[1].reason.find("signal 6"), std::string::npos) << outcomes[1].reason;
    EXPECT_NE(outcomes[3].reason.find("10 periods of 200 ms"), std::string::npos) << outcomes[3].reason;
    EXPECT_NE(outcomes[7].reason.find("not done"), std::string::npos) << outcomes[7].reason;
    EXPECT_NE(outcomes[4].reason.find("status 3"), std::string::npos) << outcomes[4].reason;
  }
}

TEST(Supervisor, WhatABrokenCaseLeavesBehindIsNobodyElses) {
  const std::vector<Outcome> outcomes = supervise({"pass", "refuse", "count", "break", "count"}, 1);
  EXPECT_EQ(outcomes[2].reason, "2");
  EXPECT_EQ(outcomes[3].verdict, Verdict::kBroken);
  EXPECT_EQ(outcomes[4].reason, "0");
}

TEST(Supervisor, TellsOutcomesAsTheyArriveAndHowFarItIs) {
  const std::vector<Case> cases = cases_named({"pass", "wait", "refuse"});
  SupervisorOptions options;
  options.case_limit = std::chrono::milliseconds(20);
  options.progress_period = std::chrono::milliseconds(50);
  std::vector<std::pair<size_t, Verdict>> told;
  options.on_outcome = [&](size_t index, const Outcome& outcome) { told.emplace_back(index, outcome.verdict); };
  std::vector<Progress> progress;
  options.on_progress = [&](const Progress& p) {
    progress.push_back(p);
    EXPECT_EQ(p.done, told.size());
  };
  run_supervised(
      cases, [] { return CaseRunner(behave); }, options);
  const std::vector<std::pair<size_t, Verdict>> expected = {
      {0, Verdict::kPassed}, {1, Verdict::kBroken}, {2, Verdict::kRefused}};
  EXPECT_EQ(told, expected);
  ASSERT_GE(progress.size(), 2u);  // the case that waits has 200 ms
  EXPECT_EQ(progress[0].done, 1u);
  EXPECT_EQ(progress[0].oldest, "wait");
  EXPECT_GE(progress[1].elapsed.count(), 100);
}

TEST(Supervisor, BeginsNoCaseAfterTheTimeLimit) {
  for (const int limit : {0, 100}) {
    SupervisorOptions options;
    options.case_limit = std::chrono::milliseconds(50);
    options.time_limit = std::chrono::milliseconds(limit);
    size_t told = 0;
    options.on_outcome = [&](size_t, const Outcome&) { ++told; };
    const std::vector<Outcome> outcomes = run_supervised(
        cases_named({"pass", "wait", "pass", "pass"}), [] { return CaseRunner(behave); }, options);
    EXPECT_EQ(outcomes[0].verdict, limit == 0 ? Verdict::kNotRun : Verdict::kPassed);
    EXPECT_EQ(outcomes[1].verdict, limit == 0 ? Verdict::kNotRun : Verdict::kBroken);  // what has begun may end
    EXPECT_EQ(outcomes[2].verdict, Verdict::kNotRun);
    EXPECT_EQ(outcomes[3].verdict, Verdict::kNotRun);
    EXPECT_EQ(told, limit == 0 ? 0u : 2u);
  }
}

}  // namespace
}  // namespace tw::conformance
