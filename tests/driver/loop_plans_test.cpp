// Plans of models with loops: their bodies are in them. What equal bodies share.
#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/driver/loop_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add_loop;
using graph::test::f32;
using graph::test::last_of;
using graph::test::nested_model;
using graph::test::turns_of;

TEST(LoopPlans, ReplayGivesTheSameBytes) {
  for (const Graph& g : {gated_model({}), nested_model({.outer = 10, .inner = 12, .n = 20})}) {
    for (const bool plain : {false, true}) {
      CompileOptions options;
      options.all_optional_off = plain;
      const Compiled first = compile_graph(g, options);
      ASSERT_FALSE(first.plan.entries[0].bodies.empty());
      options.plan_text = plan::to_string(first.plan);
      const Compiled again = compile_graph(g, options);
      EXPECT_EQ(again.warnings, std::vector<std::string>());
      EXPECT_EQ(artefact_bytes(again), artefact_bytes(first));
    }
  }
}

TEST(LoopPlans, BodiesAreInTheirText) {
  const plan::Plan plan = compile_graph(nested_model({.outer = 10, .inner = 12, .n = 20}), {}).plan;
  EXPECT_EQ(plan::parse_plan(plan::to_string(plan)), plan);
  const plan::EntryPlan& entry = plan.entries[0];
  ASSERT_EQ(entry.bodies.size(), 1U);
  ASSERT_EQ(entry.bodies[0].bodies.size(), 1U) << "the inner loop's";
  EXPECT_EQ(entry.bodies[0].target, entry.target);
  const auto loops = [](const plan::EntryPlan& p) {
    return std::ranges::count(p.groups, plan::kLoopFamily, &plan::GroupPlan::family);
  };
  EXPECT_EQ(loops(entry), 1);
  EXPECT_EQ(loops(entry.bodies[0]), 1);
  EXPECT_EQ(loops(entry.bodies[0].bodies[0]), 0);
}

std::string refusal(const std::string& plan) {
  CompileOptions options;
  options.plan_text = plan;
  try {
    compile_graph(gated_model({}), options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "taken";
}

TEST(LoopPlans, ABodyWithoutItsEndIsRefused) {
  const std::string text = plan::to_string(compile_graph(gated_model({}), {}).plan);
  EXPECT_EQ(refusal(text), "taken");
  std::string cut = text;
  cut.erase(cut.rfind("end\n"), 4);
  const auto behind = std::ranges::count(cut, '\n') + 1;
  EXPECT_NE(refusal(cut).find(fmt::format("plan line {}: ", behind)), std::string::npos) << refusal(cut);
  EXPECT_NE(refusal(cut).find("expected 'end' of a body"), std::string::npos) << refusal(cut);
  EXPECT_NE(refusal(text + "end\n").find("no body is open"), std::string::npos);
  EXPECT_NE(refusal(cut + "entry other\n").find("expected 'end' of a body before"), std::string::npos);
}

#ifdef TW_HAVE_LLVM
// Groups in bodies are measured like others; loops themselves are no candidates.
TEST(LoopPlans, OfMeasuredGroupsAndLayouts) {
  for (const Graph& g : {gated_model({.n = 64}), nested_model({.outer = 10, .inner = 12, .n = 20})}) {
    CompileOptions options;
    options.layouts = LayoutUse::kMeasured;
    options.tuning.worker = {TW_MEASURE_WORKER};
    options.tuning.threads = 1;
    options.tuning.light_us = 0;
    options.tuning.run_seconds = 0.05;
    const Compiled measured = compile_graph(g, options);
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact_bytes(measured), &g, random_arrays(g, 1), {});
    EXPECT_TRUE(report.ok()) << faults(report);
    CompileOptions replay;
    replay.plan_text = plan::to_string(measured.plan);
    EXPECT_EQ(artefact_bytes(compile_graph(g, replay)), artefact_bytes(measured));
  }
}
#endif

TEST(LoopPlans, LoopsOfEqualBodiesShareKernelsAndWeights) {
  const auto model = [](int loops) {
    Graph g;
    const TensorType row{DataType::f32(), {2, 16}};
    const ValueId h = g.add_input("h", row), c = g.add_input("c", row), x = g.add_input("x", f32({12, 2, 16}));
    const ValueId w = weight(g, "w", {16, 16}), u = weight(g, "uu", {16, 16});
    for (int l = 0; l < loops; ++l) {
      const Repeat repeat = turns_of(12, 2, 1, 0);
      g.outputs.push_back(last_of(g, add_loop(g, gated_body(2, 16), {l == 0 ? h : c, h, x, w, u}, repeat), repeat));
    }
    return compile_graph(g, {});
  };
  const Compiled one = model(1), two = model(2);
  EXPECT_EQ(one.sections.at("weights").size(), two.sections.at("weights").size());
  EXPECT_EQ(one.manifest.kernels.size(), two.manifest.kernels.size());
}

}  // namespace
}  // namespace tw::driver::test
