// Means and variances by two sums.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::RefTensor;
using testing::parse;

// "relu neg": the operators in order.
std::string ops_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

constexpr std::string_view kText = R"(graph g {
  input x : f32[3, 2, 4]
  m : f32[2], v : f32[2] = mean_variance(x) {axes = [0, -1], keepdims = 0} as s
  output m, v
})";

TEST(PartStatistics, AreTwoSums) {
  const Graph before = parse(std::string(kText)), after = testing::run_pass(before, "part-statistics");
  testing::expect_same_function(before, after, 1e-6);
  EXPECT_EQ(ops_of(after),
            "slice sub reduce_sum reshape reduce_sum_square reshape reshape mul add mul mul sub max mul");
  EXPECT_EQ(ops_of(testing::run_pass(parse(R"(graph g {
  input x : f32[0, 2]
  m : f32[2], v : f32[2] = mean_variance(x) {axes = [0], keepdims = 0} as s
  output m, v
})"),
                                     "part-statistics")),
            "mean_variance");
}

// Numbers far from zero lose nothing, and equal ones have no variance.
TEST(PartStatistics, FarFromZeroAndEqual) {
  const Graph after = testing::run_pass(parse(std::string(kText)), "part-statistics");
  RefTensor x = RefTensor::zeros({DataType::f32(), {3, 2, 4}});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = i / 4 % 2 == 0 ? 4096 + static_cast<double>(i % 3) : 7e6;
  const std::vector<RefTensor> y = testing::outputs_of(after, {x});
  double mean = 0, variance = 0;
  for (size_t i = 0; i < x.floats.size(); ++i) mean += i / 4 % 2 == 0 ? x.floats[i] / 12 : 0;
  for (size_t i = 0; i < x.floats.size(); ++i)
    variance += i / 4 % 2 == 0 ? (x.floats[i] - mean) * (x.floats[i] - mean) / 12 : 0;
  EXPECT_NEAR(y[0].floats[0], mean, 1e-6 * mean);
  EXPECT_NEAR(y[1].floats[0], variance, 1e-6);
  EXPECT_EQ(y[1].floats[1], 0);
}

// What 16 bits hold is widened before anything is subtracted.
TEST(PartStatistics, BehindMixedPrecision) {
  TransformContext context = testing::context();
  context.dtype = DataType::f16();
  Graph graph = parse(R"(graph g {
  input x : f32[3, 2, 4]
  input w : f32[4, 4]
  y : f32[3, 2, 4] = matmul(x, w) as y
  m : f32[2], v : f32[2] = mean_variance(y) {axes = [0, 2], keepdims = 0} as s
  output m, v
})");
  for (const char* pass : {"mixed-precision", "part-statistics"}) graph = find_pass(pass).run(graph, context);
  for (const graph::Node& node : graph.nodes) {
    if (node.op == "sub") EXPECT_EQ(graph.value(node.inputs[0]).type.type, DataType::f32());
  }
}

}  // namespace
}  // namespace tw::transform
