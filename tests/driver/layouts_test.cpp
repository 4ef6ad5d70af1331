// Layouts of values between groups: what a choice makes of a graph, how a plan keeps it, and a search with a real
// worker.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "artefact/session.h"
#include "driver/compile.h"
#include "driver/layouts/layout_choice.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/join.h"
#include "tests/driver/small_model.h"
#include "transform/pass.h"

namespace tw::driver::test {
namespace {

using graph::test::add;
using Ints = std::vector<int64_t>;

// Sums over the outer dims and over the inner ones, of a value that a softmax writes: whose rows lie next to each other
// is for measuring to tell.
graph::Graph sums() {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {24, 40, 56}});
  const graph::ValueId y = add(g, "softmax", {x}, {{"axis", int64_t{2}}});
  const auto sum = [&](graph::ValueId of, int64_t axis) {
    return add(g, "reduce_sum", {of}, {{"axes", Ints{axis}}, {"keepdims", int64_t{0}}});
  };
  g.outputs = {sum(y, 0), sum(y, 1), add(g, "relu", {sum(y, 2)})};
  return g;
}

class LayoutsTest : public ::testing::Test {
 protected:
  EntryGroups groups_of(const graph::Graph& model) const {
    return entry_groups(transform::transform(model, {ops_, target_.info}, {}), ops_, target_, {});
  }

  targets::Target target_ = targets::find_target("cpu");
  graph::OpTable ops_ = ops::all_ops();
};

TEST_F(LayoutsTest, DimsThatNeverPartAreOne) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {4, 6, 8, 10}});
  const graph::ValueId y = add(g, "softmax", {x}, {{"axis", int64_t{3}}});
  const graph::ValueId z = add(g, "softmax", {y}, {{"axis", int64_t{1}}});
  g.outputs = {add(g, "softmax", {z}, {{"axis", int64_t{3}}})};
  const EntryGroups groups = groups_of(g);
  const auto labels = layout_labels({groups, ops_, target_, {}});
  ASSERT_EQ(labels.size(), 2u);
  // Rows of the last dim, then of dim 1: dims 0, 1, 2 and 3 part in one group or the other.
  for (const auto& [id, layouts] : labels) {
    EXPECT_EQ(layouts.size(), 24u) << graph::to_string(groups.graph);
    EXPECT_EQ(layouts.front(), Layout());
  }
}

TEST_F(LayoutsTest, ValuesOfCallersAreStoredRowByRow) {
  const EntryGroups groups = groups_of(sums());
  for (const auto& [id, layouts] : layout_labels({groups, ops_, target_, {}}))
    EXPECT_TRUE(groups.graph.producer(id) >= 0 && !groups.graph.is_output(id));
}

std::vector<std::vector<std::byte>> outputs_of(const Compiled& compiled, const graph::Graph& model) {
  const std::vector<artefact::Array> inputs = random_arrays(model, 7);
  return mapped(artefact::Session::load_memory(artefact_bytes(compiled), {1, false}).run(inputs),
                &artefact::Array::bytes);
}

void expect_near(const Compiled& got, const Compiled& want, const graph::Graph& model) {
  const auto a = outputs_of(got, model), b = outputs_of(want, model);
  ASSERT_EQ(a.size(), b.size());
  for (size_t o = 0; o < a.size(); ++o) {
    ASSERT_EQ(a[o].size(), b[o].size());
    const auto *x = reinterpret_cast<const float*>(a[o].data()), *y = reinterpret_cast<const float*>(b[o].data());
    for (size_t i = 0; i < a[o].size() / sizeof(float); ++i) ASSERT_NEAR(x[i], y[i], 1e-5 * std::abs(y[i]) + 1e-6);
  }
}

CompileOptions replay(const plan::Plan& plan) {
  CompileOptions options;
  options.plan_text = plan::to_string(plan);
  return options;
}

// Any choice computes the same, and its plan gives the same code again.
TEST_F(LayoutsTest, APlanFixesThem) {
  const graph::Graph model = sums();
  const Compiled usual = compile_graph(model, {});
  const EntryGroups groups = groups_of(model);
  const auto labels = layout_labels({groups, ops_, target_, {}});
  ASSERT_FALSE(labels.empty());
  int64_t tried = 0;
  for (const auto& [id, layouts] : labels) {
    for (const Layout& layout : std::span(layouts).subspan(1)) {
      plan::Plan plan = usual.plan;
      plan.entries[0].groups.clear();  // a plan may fix layouts alone
      plan.entries[0].between.values[groups.graph.value(id).name] = layout;
      const Compiled other = compile_graph(model, replay(plan));
      for (const std::string& said : other.warnings) EXPECT_EQ(said.find("layouts"), std::string::npos) << said;
      EXPECT_NE(other.sections.at("code"), usual.sections.at("code"));
      EXPECT_EQ(artefact_bytes(compile_graph(model, replay(other.plan))), artefact_bytes(other));
      expect_near(other, usual, model);
      ++tried;
    }
  }
  EXPECT_GE(tried, 5);
}

TEST_F(LayoutsTest, ReadersOfOneOtherOrderShareACopy) {
  const graph::Graph model = sums();
  const EntryGroups groups = groups_of(model);
  const graph::ValueId value = layout_labels({groups, ops_, target_, {}}).begin()->first;
  const std::vector<int> readers = groups.graph.consumers()[static_cast<size_t>(value)];
  ASSERT_GE(readers.size(), 2u);
  plan::Plan plan = compile_graph(model, {}).plan;
  const size_t count = plan.entries[0].groups.size();
  plan.entries[0].groups.clear();
  for (const int reader : {readers[0], readers[1]}) {
    const graph::Node& node = groups.graph.nodes[static_cast<size_t>(reader)];
    plan.entries[0].between.reads[{groups.graph.value(node.outputs[0]).name, index_of(node.inputs, value)}] =
        Layout().reorder({2, 1, 0});
  }
  const Compiled copied = compile_graph(model, replay(plan));
  EXPECT_EQ(copied.plan.entries[0].groups.size(), count + 1);
  expect_near(copied, compile_graph(model, {}), model);
}

TEST_F(LayoutsTest, NamesOfNoValueAreSaid) {
  plan::Plan plan = compile_graph(sums(), {}).plan;
  plan.entries[0].between.values["not there"] = channels_last(3);
  const Compiled again = compile_graph(sums(), replay(plan));
  ASSERT_EQ(again.warnings.size(), 1u);
  EXPECT_NE(again.warnings[0].find("'not there'"), std::string::npos) << again.warnings[0];
}

TEST_F(LayoutsTest, WithoutMeasuringTheyAreRefused) {
  CompileOptions options;
  options.layouts = LayoutUse::kMeasured;
  options.no_measure = true;
  EXPECT_THROW(compile_graph(sums(), options), UsageError);
}

#ifdef TW_HAVE_LLVM
// Times are real: what is asked of them holds whatever they are.
TEST_F(LayoutsTest, TheBestOfAllGroupsTogetherIsChosen) {
  CompileOptions options;
  options.layouts = LayoutUse::kMeasured;
  options.tuning.worker = {TW_MEASURE_WORKER};
  options.tuning.threads = 1;
  const graph::Graph model = sums();
  const Compiled chosen = compile_graph(model, options);
  const plan::EntryPlan& entry = chosen.plan.entries[0];
  const plan::LayoutTotals all = plan::totals_of(entry.layout_times);
  EXPECT_GE(all.groups, 3);
  EXPECT_GE(all.layouts, 3 * all.groups);
  EXPECT_LE(all.chosen_us, all.usual_us);
  EXPECT_LE(all.best_us, all.chosen_us * (1 + 1e-9));
  for (const plan::LayoutTimes& t : entry.layout_times) {
    EXPECT_TRUE(t.us.empty() || std::ranges::count(t.us, t.usual_us) > 0) << t.group;
  }
  expect_near(chosen, compile_graph(model, {}), model);
  EXPECT_EQ(artefact_bytes(compile_graph(model, replay(chosen.plan))), artefact_bytes(chosen));
}
#endif

}  // namespace
}  // namespace tw::driver::test
