// A plan gives the same code however much has changed since: machine parameters, passes, other groups. What it does
// not know is decided anew and said.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "artefact/session.h"
#include "driver/machine/machine.h"
#include "plan/plan.h"
#include "support/error.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;
using graph::test::add;
using Ints = std::vector<int64_t>;

class ReplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-replay-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // As `doctor --remeasure` would have it, with memory `factor` times as fast as by default, and products of f32.
  CompileOptions on_machine(double memory, double flop) const {
    CompileOptions options;
    options.machine_model.parameters = machine::Parameters::kMeasuredAnew;
    options.machine_model.folder = folder_.string();
    options.machine_model.measure = [memory, flop](const TargetInfo& defaults, const targets::HostCpu&) {
      TargetInfo info = defaults;
      for (MemoryLevel& level : info.levels) {
        for (double MemoryLevel::*rate : {&MemoryLevel::read_per_ns, &MemoryLevel::write_per_ns,
                                          &MemoryLevel::copy_per_ns, &MemoryLevel::all_per_ns})
          level.*rate *= memory;
        for (ChunkBandwidth& chunk : level.chunks) chunk.bytes_per_ns *= memory;
      }
      for (VectorPeak& peak : info.peaks) peak.flop_per_ns *= flop, peak.all_flop_per_ns *= flop;
      info.parameters_from = "measured on a sample";
      return info;
    };
    return options;
  }

  static CompileOptions replay(const plan::Plan& plan, CompileOptions options = {}) {
    options.plan_text = plan::to_string(plan);
    return options;
  }

  fs::path folder_;
};

// Other names, other numbers: equal constants would be one.
graph::ValueId constant(graph::Graph& g, const std::string& name, Shape shape) {
  graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), std::move(shape)});
  size_t seed = 0;
  for (const char c : name) seed = 3 * seed + static_cast<size_t>(c);
  for (size_t i = 0; i < t.floats.size(); ++i)
    t.floats[i] = static_cast<double>(((i + seed) * 7) % 11 + seed % 5) / 64 - 0.109375;
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

// Convolutions of all kinds between element-wise operators: what layouts and algorithms are best depends on machine
// parameters.
graph::Graph images() {
  graph::Graph g;
  g.name = "images";
  graph::ValueId y = g.add_input("x", {DataType::f32(), {1, 16, 28, 28}});
  const auto conv = [&](graph::ValueId x, int64_t window, int64_t channels, int64_t group) {
    const int64_t in = g.value(x).type.shape[1], pad = window / 2;
    const graph::ValueId w = constant(g, fmt::format("w{}", g.values.size()), {channels, in / group, window, window});
    return add(g, "conv", {x, w}, {{"pads", Ints{pad, pad, pad, pad}}, {"group", group}});
  };
  y = add(g, "relu", {conv(y, 3, 32, 1)});
  const graph::ValueId shortcut = y;
  y = add(g, "relu", {conv(y, 3, 32, 32)});
  y = add(g, "relu", {add(g, "add", {conv(y, 1, 32, 1), shortcut})});
  y = add(g, "max_pool", {y}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  y = add(g, "relu", {conv(y, 3, 64, 1)});
  g.outputs = {add(g, "global_avg_pool", {y})};
  return g;
}

TEST_F(ReplayTest, ParametersThatHaveChangedDecideNothing) {
  int differ = 0;
  for (const graph::Graph& model : {images(), small_model()}) {
    const Compiled first = compile_graph(model, on_machine(1, 1));
    for (const auto& [memory, flop] : {std::pair{0.02, 1.0}, {50.0, 1.0}, {1.0, 0.02}}) {
      const Compiled other = compile_graph(model, on_machine(memory, flop));
      differ += other.sections.at("code") != first.sections.at("code") ? 1 : 0;
      const Compiled again = compile_graph(model, replay(first.plan, on_machine(memory, flop)));
      EXPECT_EQ(artefact_bytes(again), artefact_bytes(first));
      EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
      EXPECT_EQ(artefact_bytes(compile_graph(model, replay(other.plan))), artefact_bytes(other));
    }
  }
  EXPECT_GT(differ, 0) << "other parameters, other code: else this test asks nothing";
}

// Two branches: one that is a product of matrices and one, where wanted, of its own.
graph::Graph branches(bool has_other, const std::string& weights = "w") {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {24, 40}});
  if (has_other) g.outputs.push_back(add(g, "softmax", {add(g, "transpose", {x}, {{"perm", Ints{1, 0}}})}));
  graph::ValueId y = add(g, "relu", {add(g, "matmul", {x, constant(g, weights, {40, 56})})});
  g.outputs.push_back(add(g, "softmax", {y}));
  g.outputs.push_back(
      add(g, "layer_norm", {x, constant(g, "scale", {40}), constant(g, "bias", {40})}, {{"axis", int64_t{1}}}));
  return g;
}

plan::GroupPlan& group_of(plan::Plan& plan, std::string_view family) {
  return *std::ranges::find(plan.entries.at(0).groups, family, &plan::GroupPlan::family);
}

// What nobody would construct: to see that it was taken from the plan.
void mark(plan::Plan& plan) { group_of(plan, "contraction").trace = {"taken from the plan"}; }
bool is_marked(const Compiled& compiled) {
  plan::Plan plan = compiled.plan;
  return group_of(plan, "contraction").trace == std::vector<std::string>{"taken from the plan"};
}

TEST_F(ReplayTest, GroupsAreFoundAmongOthers) {
  for (const bool planned_with : {true, false}) {
    plan::Plan plan = compile_graph(branches(planned_with), {}).plan;
    mark(plan);
    const Compiled again = compile_graph(branches(!planned_with), replay(plan));
    EXPECT_TRUE(is_marked(again));
    ASSERT_EQ(again.warnings.size(), 1U);
    const std::string& warning = again.warnings[0];
    EXPECT_EQ(warning.find("of its groups") != std::string::npos, planned_with) << warning;
    EXPECT_EQ(warning.find("decided by prediction") != std::string::npos, !planned_with) << warning;
    // What was decided anew is what a compilation without a plan decides.
    EXPECT_EQ(again.sections.at("code"), compile_graph(branches(!planned_with), {}).sections.at("code"));
  }
}

TEST_F(ReplayTest, PassesThatChangeOtherGroupsChangeNoCode) {
  const graph::Graph model = branches(true);
  CompileOptions without;
  without.disabled_passes = {"common-subexpressions", "fold-batch-norm"};
  plan::Plan plan = compile_graph(model, without).plan;
  mark(plan);
  const Compiled again = compile_graph(model, replay(plan));
  EXPECT_TRUE(is_marked(again));
  EXPECT_TRUE(again.warnings.empty());
  without.disabled_passes = {"fuse"};  // most groups are others
  const Compiled apart = compile_graph(model, replay(plan, without));
  ASSERT_EQ(apart.warnings.size(), 1U);
  EXPECT_NE(apart.warnings[0].find("decided by prediction"), std::string::npos) << apart.warnings[0];
}

TEST_F(ReplayTest, OtherWeightsAreNoOtherModel) {
  const plan::Plan plan = compile_graph(branches(false), {}).plan;
  const Compiled again = compile_graph(branches(false, "v"), replay(plan));
  EXPECT_NE(again.plan.entries[0].graph_hash, plan.entries[0].graph_hash);
  EXPECT_TRUE(again.warnings.empty());
}

TEST_F(ReplayTest, OfEqualGroupsTheNameDecides) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {24, 40}});
  for (const char* name : {"v", "w"}) g.outputs.push_back(add(g, "matmul", {x, constant(g, name, {40, 56})}, {}, name));
  plan::Plan plan = compile_graph(g, {}).plan;
  std::vector<plan::GroupPlan>& groups = plan.entries.at(0).groups;
  ASSERT_EQ(groups.size(), 2U);
  ASSERT_EQ(groups[0].content, groups[1].content);
  groups[1].trace = {"the second one"};
  std::swap(groups[0], groups[1]);
  const Compiled again = compile_graph(g, replay(plan));
  EXPECT_EQ(again.plan.entries.at(0).groups[0], groups[1]);
  EXPECT_EQ(again.plan.entries.at(0).groups[1], groups[0]);
}

TEST_F(ReplayTest, LayoutsOfValuesAreThoseOfThePlan) {
  const graph::Graph model = images();
  const std::vector<artefact::Array> inputs = random_arrays(model, 7);
  const Compiled first = compile_graph(model, {});
  const auto outputs = [&](const Compiled& compiled) {
    return artefact::Session::load_memory(artefact_bytes(compiled), {1, false}).run(inputs)[0].bytes;
  };
  const std::vector<std::byte> want_bytes = outputs(first);
  const std::span want(reinterpret_cast<const float*>(want_bytes.data()), want_bytes.size() / sizeof(float));
  // All rows, all channels last, and what no pass would choose. Layouts are part of what groups compute.
  for (const Layout& layout :
       {Layout(), channels_last(4), Layout().reorder({0, 1, 3, 2}), Layout().reorder({3, 2, 1, 0})}) {
    plan::Plan plan = first.plan;
    for (auto& [name, own] : plan.entries[0].layouts.values) own = layout;
    plan.entries[0].layouts.reads.clear();
    plan.entries[0].groups.clear();
    const Compiled again = compile_graph(model, replay(plan));
    int64_t count = 0;
    for (const auto& [name, own] : again.plan.entries[0].layouts.values) count += own == layout ? 1 : 0;
    EXPECT_GT(count, 4) << to_string(layout);
    const std::vector<std::byte> bytes = outputs(again);
    const auto* got = reinterpret_cast<const float*>(bytes.data());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * std::abs(want[i]) + 1e-5) << to_string(layout);
  }
}

TEST_F(ReplayTest, LayoutsThatFitNoValueAreSaid) {
  const graph::Graph model = images();
  plan::Plan plan = compile_graph(model, {}).plan;
  ValueLayouts& layouts = plan.entries[0].layouts;
  const std::map<std::string, Layout> first = layouts.values;
  layouts.values.begin()->second = Layout().reorder({1, 0});
  std::next(layouts.values.begin())->second = Layout().split(0, {7, 11});
  layouts.values["not there"] = channels_last(4);
  const Compiled again = compile_graph(model, replay(plan));
  ASSERT_EQ(again.warnings.size(), 1U);
  EXPECT_NE(again.warnings[0].find("2 of its layouts are none of values of 'main': '"), std::string::npos)
      << again.warnings[0];
  EXPECT_EQ(again.plan.entries[0].layouts.values, first) << "chosen as they were";
}

std::string refusal(const graph::Graph& model, const CompileOptions& options) {
  try {
    compile_graph(model, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST_F(ReplayTest, PlansOfOtherModelsAreRefused) {
  const plan::Plan plan = compile_graph(images(), {}).plan;
  EXPECT_NE(refusal(small_model(), replay(plan)).find("--plan was made for another model: it has 0 of the "),
            std::string::npos)
      << refusal(small_model(), replay(plan));
  CompileOptions halves;
  halves.dtype = DataType::bf16();
  EXPECT_NE(refusal(images(), replay(plan, halves)).find("other options"), std::string::npos)
      << refusal(images(), replay(plan, halves));
}

TEST_F(ReplayTest, WrongParametersAreRefused) {
  const plan::Plan plan = compile_graph(small_model(), {}).plan;
  const auto with = [&](std::string_view from, std::string_view to) {
    plan::Plan changed = plan;
    std::string& machine = changed.entries[0].machine;
    machine.replace(machine.find(from), from.size(), to);
    return refusal(small_model(), replay(changed));
  };
  EXPECT_NE(with("{", "[").find("--plan: the line 'machine' of "), std::string::npos) << with("{", "[");
  EXPECT_NE(with("\"ways\":", "\"ways\":-").find("its machine parameters are wrong"), std::string::npos);
  EXPECT_NE(with("\"ways\":", "\"fun\":1,\"ways\":").find("not as Tilewright writes it"), std::string::npos);
  EXPECT_NE(with("\"units\":", "\"unit\":").find("the line 'machine'"), std::string::npos);
  plan::Plan none = plan;  // as if there were no machine parameters: those of today
  none.entries[0].machine.clear();
  EXPECT_EQ(refusal(small_model(), replay(none)), "taken");
}

}  // namespace
}  // namespace tw::driver::test
