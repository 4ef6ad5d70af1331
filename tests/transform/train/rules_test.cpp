// Every rule of the operator table against finite differences.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/transform/train/rule_cases.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Graph;
using graph::ValueId;

std::vector<CaseSet> all_sets() {
  std::vector<CaseSet> sets = element_cases();
  for (std::vector<CaseSet>& more : std::vector{movement_cases(), window_cases()})
    sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

class GradientRules : public ::testing::TestWithParam<CaseSet> {};

TEST_P(GradientRules, AreDifferences) {
  for (const Case& c : GetParam().cases) {
    SCOPED_TRACE(c.op);
    check_case(c);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientRules, ::testing::ValuesIn(all_sets()),
                         [](const auto& set) { return set.param.name; });

// Neither 1, which hides sums, nor a multiple of a vector's lanes or of a stride of two.
bool has_odd_extent(const Case& c) {
  return std::ranges::any_of(c.inputs, [](const TensorType& input) {
    return std::ranges::any_of(input.shape, [](int64_t extent) { return extent >= 3 && extent % 2 == 1; });
  });
}

TEST(GradientRuleCases, EveryRuleHasOneOfOddShape) {
  const std::vector<CaseSet> sets = all_sets();
  for (const graph::OpDef& row : operators().rows()) {
    if (row.gradient.kind != graph::Gradient::Kind::kRule) continue;
    const bool is_checked = std::ranges::any_of(sets, [&](const CaseSet& set) {
      return std::ranges::any_of(set.cases, [&](const Case& c) { return c.op == row.name && has_odd_extent(c); });
    });
    EXPECT_TRUE(is_checked) << "operator '" << row.name
                            << "' has a gradient rule and no case of odd shape in *_cases.cpp";
  }
}

// Channels are contiguous in channels-last storage, and would not be with the images of the batch among them.
TEST(GradientRules, DepthwiseWeightsKeepTheirChannels) {
  Graph g;
  const ValueId x = g.add_input("x", f64({5, 6, 4, 4})), w = g.add_input("w", f64({6, 1, 3, 3}));
  const ValueId y = add_node(g, "conv", {x, w}, {{"group", int64_t{6}}});
  const ValueId loss = add_node(g, "reduce_sum", {add_node(g, "mul", {y, y})}, {{"keepdims", int64_t{0}}});
  const size_t before = g.nodes.size();
  transform::differentiate(g, operators(), loss, std::vector{w});
  size_t found = 0;
  for (size_t n = before; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op != "conv") continue;
    ++found;
    EXPECT_EQ(g.value(g.nodes[n].inputs[0]).type.shape, (Shape{1, 6, 5, 4, 4}));
    EXPECT_EQ(g.value(g.nodes[n].outputs[0]).type.shape, (Shape{1, 6, 1, 3, 3}));
  }
  EXPECT_EQ(found, 1u);
}

// A gather whose indices are constants: `indices` from x of `extent` rows.
Graph constant_gather(int64_t extent, const Ints& indices, int64_t axis) {
  Graph g;
  g.name = "gather";
  Shape x{2, 3};
  x.insert(x.begin() + axis, extent);
  const ValueId in = g.add_input("x", f64(x));
  const ValueId at = add_constant(g, {i64({std::ssize(indices)}), {}, indices});
  g.outputs = {add_node(g, "gather", {in, at}, {{"axis", axis}})};
  return g;
}

TEST(GradientRuleCases, ConstantIndices) {
  std::mt19937_64 random(3);
  const std::vector<std::pair<int64_t, Ints>> all = {{4, {0, 0, 1, 1, 2, 2, 3, 3}},
                                                     {5, {4, -1, 0}},
                                                     {9, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
                                                     {1, {0, 0, 5}},
                                                     {5, {1, 2, 3}},
                                                     {5, {0}},
                                                     {5, {-1, 0}},
                                                     {4, {-2, -1}},
                                                     {6, {5, 6}},
                                                     {2, {0, 0, 0, 0, 0, 0}},
                                                     {3, {1, 1, 1, 1, 1, 2}}};
  for (const auto& [extent, indices] : all) {
    for (const int64_t axis : {0, 2}) {
      const Graph g = constant_gather(extent, indices, axis);
      check_gradients(g, {random_tensor(g.value(g.inputs[0]).type, {}, random)});
    }
  }
}

}  // namespace
}  // namespace tw::testing
