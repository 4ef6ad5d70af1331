// Passes whose worth is measured: a graph is also planned without them. The measurer and NVRTC are the tests' own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "driver/compile_entry.h"
#include "driver/entry_groups.h"
#include "ops/list.h"
#include "support/join.h"
#include "targets/registry.h"
#include "tests/driver/cubins/zero_run.h"
#include "tests/graph/sample.h"

namespace tw::driver::test {
namespace {

using measure::Measured;
using measure::Outcome;

bool has_dim(const measure::Workload& work, int64_t dim) {
  return std::ranges::any_of(work.buffers, [&](const measure::BufferSpec& b) {
    return std::ranges::find(b.type.shape, dim) != b.type.shape.end();
  });
}

// Time by the number of channels, the largest known one, all else 1000 ns. 0: nothing is measured; below: such kernels
// are wrong.
using Times = std::map<int64_t, double>;

class ChannelMeasurer : public measure::Measurer {
 public:
  explicit ChannelMeasurer(Times times) : times_(std::move(times)) {}
  std::vector<Measured> measure(std::span<const measure::Workload> work, const measure::MeasureOptions&) override {
    std::vector<Measured> out;
    for (const measure::Workload& w : work) {
      double ns = 1000;
      for (const auto& [channels, known] : times_) ns = has_dim(w, channels) ? known : ns;
      if (times_.begin()->second == 0) {
        out.push_back({Outcome::kNotMeasured, "", {}});
      } else if (ns < 0) {
        out.push_back({Outcome::kWrong, "made up", {}});
      } else {
        out.push_back({Outcome::kMeasured, "", {ns, ns, 12, 1}});
      }
    }
    return out;
  }
  measure::RunOnce run(const measure::Workload& work, int) override { return zero_run(work); }

 private:
  Times times_;
};

// A convolution of 46 channels: pass pad-channels fills them up to 48 for 9 x 9 pixels, for 3 x 3 where it is eager,
// and to 64 as lines.
graph::Graph model(int64_t window) {
  graph::Graph g;
  graph::RefTensor weights = graph::RefTensor::zeros({DataType::f16(), {40, 46, window, window}});
  for (size_t i = 0; i < weights.floats.size(); ++i) weights.floats[i] = static_cast<double>(i % 7) / 8;
  const graph::ValueId x = g.add_input("x", {DataType::f16(), {32, 46, 20, 26}});
  const graph::ValueId w = g.add_constant("w", weights.type, share(weights.to_bytes()));
  g.outputs = {graph::test::add(g, "conv", {x, w})};
  return g;
}

class PassVariantsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TW_NVRTC", TW_FAKE_NVRTC, 1);
    options_.target = "cuda:sm_90a";
    options_.cubins.worker = {TW_CUBIN_WORKER};
  }

  EntryCode compile(int64_t window, const Times& times, const plan::EntryPlan* replay = nullptr) {
    return compile(model(window), times, replay);
  }

  EntryCode compile(const graph::Graph& graph, const Times& times, const plan::EntryPlan* replay = nullptr) {
    return compile(graph, std::make_unique<ChannelMeasurer>(times), replay);
  }

  // `first`: of the function that was compiled before.
  EntryCode compile(const graph::Graph& graph, std::unique_ptr<measure::Measurer> measurer,
                    const plan::EntryPlan* replay = nullptr, const plan::EntryPlan* first = nullptr) {
    TunerOptions tuning;
    tuning.light_us = 1e9;  // nothing is heavy by itself
    Tuner tuner(tuning, std::move(measurer));
    Planner planner(target_, &tuner);
    ProgramSet programs;
    Cubins cubins(options_.cubins);
    std::vector<PassTime> pass_times;
    Dumper dumper("");
    std::vector<std::string> warnings;
    StateLayouts states;
    const EntryContext context = {options_,   ops_,     target_, planner, programs, cubins,
                                  pass_times, warnings, states,  nullptr, nullptr,  first};
    return *compile_entry(context, "main", graph, replay, dumper);
  }

  static bool is_padded(const EntryCode& entry, int64_t channels = 48) {
    return std::ranges::any_of(entry.graph.values, [&](const graph::Value& v) {
      return v.is_constant() && std::ranges::find(v.type.shape, channels) != v.type.shape.end();
    });
  }

  static std::string chosen(const EntryCode& entry) {
    const auto found = std::ranges::find_if(entry.plan.passes, &plan::PassVariant::is_chosen);
    return found == entry.plan.passes.end() ? "" : found->pass + " " + found->variant;
  }

  CompileOptions options_;
  graph::OpTable ops_ = ops::all_ops();
  targets::Target target_ = targets::find_target("cuda:sm_90a");
};

// Another function of the same nodes and shapes measures no variants: those that were chosen hold there, too.
TEST_F(PassVariantsTest, OtherFunctionsFollowTheFirst) {
  const Times slow = {{48, 5000}, {64, 5000}}, fast = {{48, 200}};
  const EntryCode first = compile(9, slow);
  ASSERT_EQ(chosen(first), "pad-channels off");
  const EntryCode other = compile(model(9), std::make_unique<ChannelMeasurer>(fast), nullptr, &first.plan);
  EXPECT_EQ(chosen(other), "pad-channels off");
  EXPECT_FALSE(is_padded(other));
  EXPECT_TRUE(is_padded(compile(9, fast)));
  EXPECT_EQ(other.plan.passes.size(), 1U);
}

TEST_F(PassVariantsTest, PassesStayWhereTheyAreFaster) {
  const EntryCode entry = compile(9, {{48, 200}});
  EXPECT_TRUE(is_padded(entry));
  EXPECT_EQ(chosen(entry), "");
  ASSERT_EQ(entry.plan.passes.size(), 2U);  // eager is what it does anyway
  for (const plan::PassVariant& variant : entry.plan.passes) {
    EXPECT_EQ(variant.pass, "pad-channels");
    EXPECT_GT(variant.us, variant.usual_us) << variant.variant;
  }
}

TEST_F(PassVariantsTest, PassesAreLeftOutWhereTheyAreSlowerAndReplayedSo) {
  const EntryCode entry = compile(9, {{48, 5000}});
  EXPECT_FALSE(is_padded(entry));
  EXPECT_EQ(chosen(entry), "pad-channels off");
  const plan::Plan kept = plan::parse_plan(plan::to_string({{entry.plan}}));
  const EntryCode again = compile(9, {{48, 200}}, &kept.entries.at(0));
  EXPECT_FALSE(is_padded(again));
  EXPECT_EQ(again.plan.passes, entry.plan.passes);
}

TEST_F(PassVariantsTest, PassesDoMoreThanTheyPredictWhereThatIsFaster) {
  const EntryCode entry = compile(3, {{48, 200}});
  EXPECT_TRUE(is_padded(entry));
  EXPECT_EQ(chosen(entry), "pad-channels always");
  EXPECT_TRUE(is_padded(compile(3, {{48, 5000}}, &entry.plan)));
  EXPECT_FALSE(is_padded(compile(3, {{48, 5000}})));
}

TEST_F(PassVariantsTest, PassesMakeRoomForWholeLinesWhereThatIsFastest) {
  const Times times = {{46, 3000}, {48, 2900}, {64, 100}};
  const EntryCode entry = compile(9, times);
  EXPECT_EQ(chosen(entry), "pad-channels pad-to-cache-line");
  EXPECT_TRUE(is_padded(entry, 64));
  EXPECT_TRUE(is_padded(compile(9, {{48, 10}}, &entry.plan), 64));
  EXPECT_TRUE(is_padded(compile(3, times), 64));
}

TEST_F(PassVariantsTest, PlansNameVariantsThatThePassHas) {
  plan::EntryPlan replay = compile(9, {{48, 200}}).plan;
  replay.passes = {{"pad-channels", "twice", 1, 2, true}};
  EXPECT_THROW(compile(9, {{48, 200}}, &replay), UsageError);
  replay.passes = {{"fuse", "off", 1, 2, true}};
  EXPECT_THROW(compile(9, {{48, 200}}, &replay), UsageError);
}

// Without the family whose groups it forms a pass is off.
TEST_F(PassVariantsTest, MeansOverPartsOfOneLine) {
  graph::Graph g;
  const graph::RefTensor weights = graph::RefTensor::zeros({DataType::f16(), {64, 16, 3, 3}});
  const graph::ValueId x = g.add_input("x", {DataType::f16(), {64, 16, 22, 102}});
  const graph::ValueId w = g.add_constant("w", weights.type, share(weights.to_bytes()));
  g.outputs = {graph::test::add(g, "global_avg_pool", {graph::test::add(g, "conv", {x, w})})};
  const auto is_reduced = [&] {
    return std::ranges::count(compile(g, {{48, 0}}).plan.groups, "reduced", &plan::GroupPlan::family) > 0;
  };
  EXPECT_TRUE(is_reduced());
  options_.disabled_families = {"reduced"};
  EXPECT_FALSE(is_reduced());
}

TEST_F(PassVariantsTest, NothingIsDecidedWithoutTimes) {
  const EntryCode entry = compile(9, {{48, 0}});
  EXPECT_TRUE(is_padded(entry));
  EXPECT_TRUE(entry.plan.passes.empty());
}

TEST_F(PassVariantsTest, AVariantWithoutAnyKernelLoses) {
  const EntryCode entry = compile(3, {{48, -1}});
  EXPECT_FALSE(is_padded(entry));
  EXPECT_TRUE(std::ranges::none_of(entry.plan.passes, [](const auto& variant) { return variant.variant == "always"; }));
}

// One kernel of a pre-activation and its activation: five tensors, the product by itself four.
class BufferMeasurer : public measure::Measurer {
 public:
  explicit BufferMeasurer(double together_ns) : together_ns_(together_ns) {}
  std::vector<Measured> measure(std::span<const measure::Workload> work, const measure::MeasureOptions&) override {
    return mapped(work, [&](const measure::Workload& w) {
      const double ns = w.buffers.size() == 5 ? together_ns_ : w.buffers.size() == 4 ? 800 : 100;
      return Measured{Outcome::kMeasured, "", {ns, ns, 12, 1}};
    });
  }
  measure::RunOnce run(const measure::Workload& work, int) override { return zero_run(work); }

 private:
  double together_ns_;
};

graph::ValueId add_zeros(graph::Graph& g, const std::string& name, const TensorType& type) {
  return g.add_constant(name, type, share(graph::RefTensor::zeros(type).to_bytes()));
}

TEST_F(PassVariantsTest, ValuesLeaveBesideOthersWhereThatIsFaster) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {48, 64}});
  const graph::ValueId b = g.add_input("b", {DataType::f32(), {96}});
  const graph::ValueId w = add_zeros(g, "w", {DataType::f32(), {64, 96}});
  const graph::ValueId p = graph::test::add(g, "add", {graph::test::add(g, "matmul", {x, w}), b});
  g.outputs = {p, graph::test::add(g, "relu", {p})};
  const EntryCode together = compile(g, std::make_unique<BufferMeasurer>(850));
  EXPECT_EQ(chosen(together), "");
  EXPECT_EQ(together.plan.groups.size(), 1U);
  ASSERT_EQ(std::ranges::count(together.plan.passes, "fuse-outputs", &plan::PassVariant::pass), 1);
  const EntryCode apart = compile(g, std::make_unique<BufferMeasurer>(1000));
  EXPECT_EQ(chosen(apart), "fuse-outputs off");
  EXPECT_EQ(apart.plan.groups.size(), 2U);
}

// Two products, one with a bias: their kernel has five buffers, one for each has three and four.
TEST_F(PassVariantsTest, ProductsShareAKernelWhereThatIsFaster) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f16(), {4096, 128}});
  const graph::ValueId t = graph::test::add(g, "matmul", {x, add_zeros(g, "w", {DataType::f16(), {128, 64}})});
  const graph::ValueId y =
      graph::test::add(g, "matmul", {graph::test::add(g, "relu", {t}), add_zeros(g, "v", {DataType::f16(), {64, 32}})});
  g.outputs = {graph::test::add(g, "add", {y, g.add_input("b", {DataType::f16(), {32}})})};
  const EntryCode together = compile(g, std::make_unique<BufferMeasurer>(850));
  EXPECT_EQ(chosen(together), "");
  EXPECT_EQ(together.plan.groups.size(), 1U);
  ASSERT_EQ(std::ranges::count(together.plan.passes, "fuse-chains", &plan::PassVariant::pass), 1);
  const EntryCode apart = compile(g, std::make_unique<BufferMeasurer>(1000));
  EXPECT_EQ(chosen(apart), "fuse-chains products-apart");
  EXPECT_EQ(apart.plan.groups.size(), 2U);
  EXPECT_EQ(compile(g, {{1, 1000}}, &apart.plan).plan.groups.size(), 2U) << "replayed";
}

TEST(ChooseVariants, TakesTheOneThatSavesMost) {
  std::vector<plan::PassVariant> variants = {{"a", "off", 90, 100}, {"a", "always", 50, 70}, {"b", "off", 99, 100}};
  choose_variants(variants, {{"p"}, {"q"}, {"r"}});
  EXPECT_FALSE(variants[0].is_chosen);
  EXPECT_TRUE(variants[1].is_chosen);
  EXPECT_FALSE(variants[2].is_chosen) << "no more than noise";
}

// Each was measured without the other.
TEST(ChooseVariants, TakesOneOfThoseThatReplaceTheSameGroups) {
  std::vector<plan::PassVariant> variants = {{"a", "off", 50, 60}, {"b", "off", 40, 60}, {"c", "off", 10, 15}};
  choose_variants(variants, {{"stem"}, {"stem", "copy"}, {"head"}});
  EXPECT_FALSE(variants[0].is_chosen);
  EXPECT_TRUE(variants[1].is_chosen);
  EXPECT_TRUE(variants[2].is_chosen);
}

}  // namespace
}  // namespace tw::driver::test
