// What reports and analyses say of loops: groups of bodies come last, and count in every turn.
#include <gtest/gtest.h>

#include "artefact/analysis.h"
#include "artefact/explain.h"
#include "artefact/session.h"
#include "support/join.h"
#include "targets/registry.h"
#include "tests/driver/loop_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::test::nested_model;

struct Reports {
  artefact::EntryReport entry;
  artefact::AnalyzedGroups analyzed;
};
Reports reports_of(const Graph& g) {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(g, options));
  const targets::Target target = targets::find_target("cpu:x86-64-v3");
  return {artefact::explain_entry(artefact, {"x86-64-v3"}, target),
          artefact::analyze_groups(artefact, {"x86-64-v3"}, target)};
}

TEST(LoopReports, CountAllTurns) {
  const auto total = [](const Reports& reports) {
    double flop = 0;
    int64_t moved = 0;
    for (const artefact::GroupReport& group : reports.entry.groups) {
      if (group.turns == 1) continue;
      flop += group.flop;
      moved += group.moved_bytes;
    }
    return std::pair(flop, moved);
  };
  const Reports few = reports_of(gated_model({.turns = 20, .n = 16})),
                many = reports_of(gated_model({.turns = 40, .n = 16}));
  const auto [flop, moved] = total(few);
  EXPECT_EQ(flop, 20 * 2 * (2.0 * 2 * 16 * 16)) << "two products a turn";
  EXPECT_GT(moved, 20 * 2 * 16 * 16 * 4) << "each reads its weights";
  EXPECT_EQ(total(many), std::pair(2 * flop, 2 * moved));
  EXPECT_EQ(few.entry.groups.size(), many.entry.groups.size());
}

TEST(LoopReports, BodiesComeBehindTheGroupsAround) {
  const Graph g = nested_model({.outer = 10, .inner = 12, .n = 20});
  const Reports reports = reports_of(g);
  std::vector<int64_t> turns = mapped(reports.entry.groups, &artefact::GroupReport::turns);
  EXPECT_TRUE(std::ranges::is_sorted(turns));
  turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
  EXPECT_EQ(turns, (std::vector<int64_t>{1, 10, 120}));
  for (const artefact::GroupReport& group : reports.entry.groups) {
    const bool is_loop = group.plan.family == plan::kLoopFamily;
    EXPECT_EQ(group.steps == 0, !plan::has_code(group.plan)) << group.plan.name;
    if (is_loop) {
      EXPECT_EQ(group.moved_bytes, 0) << group.plan.name;
    }
  }
}

TEST(LoopReports, AnalysesHaveGroupsWithCode) {
  const Reports reports = reports_of(gated_model({.turns = 20, .n = 16}));
  std::vector<std::string> names;
  double flop = 0;
  for (const artefact::AnalyzedGroup& group : reports.analyzed.groups) {
    names.push_back(group.name);
    flop += group.flop;
    EXPECT_GT(group.steps, 0) << group.name;
  }
  std::vector<std::string> coded;
  for (const artefact::GroupReport& group : reports.entry.groups) {
    if (plan::has_code(group.plan)) coded.push_back(group.plan.name);
  }
  EXPECT_EQ(names, coded);
  EXPECT_GE(flop, 20 * 2 * (2.0 * 2 * 16 * 16));
}

TEST(LoopReports, TimesOfRunsAreOfAllTurns) {
  const Graph g = gated_model({.turns = 20, .n = 16});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(g, options));
  artefact::Session session = artefact::Session::load_memory(artefact, {1, true});
  session.run(random_arrays(g, 1));
  const std::vector<artefact::StepTime> steps = session.last_profile();
  double us = 0, of_groups = 0;
  for (const artefact::StepTime& step : steps) us += step.microseconds;
  const artefact::EntryReport report =
      artefact::explain_entry(artefact, {"x86-64-v3", 0, 1, steps}, targets::find_target("cpu:x86-64-v3"));
  for (const artefact::GroupReport& group : report.groups) of_groups += group.run_us;
  EXPECT_NEAR(of_groups, us, 1e-6 * us);
}

// The loop as an operator of a model counts its turns, too.
TEST(LoopReports, OperatorsOfModels) {
  const auto flop_of = [](int64_t turns) {
    double flop = 0;
    for (const dataflow::Operator& op : artefact::analyze_operators(gated_model({.turns = turns})).operators) {
      if (op.op != graph::kRepeat) continue;
      flop += op.flop;
      EXPECT_EQ(op.operator_class, dataflow::OperatorClass::kContraction);
      EXPECT_GT(op.words_read, turns * 2 * 17);
      EXPECT_GE(op.words_written, turns * 2 * 17);
    }
    return flop;
  };
  EXPECT_GT(flop_of(20), 20 * 2 * (2.0 * 2 * 17 * 17));
  EXPECT_EQ(flop_of(40), 2 * flop_of(20));
}

}  // namespace
}  // namespace tw::driver::test
