// Stochastic depth, as exporters write it: numbers that are 1 or 0 by chance become dropouts of ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/graph_evaluate.h"
#include "tests/transform/graph_tools.h"
#include "train/random_numbers.h"

namespace tw::train {
namespace {

using graph::Graph;
using graph::RefTensor;

Graph with_noise(const std::string& nodes) {
  return testing::parse(R"(graph depth {
  input x : f32[5, 2]
  const half : f32[] = [0.5]
  const p : f32[] = [0.75]
  m : f32[5, 1] = expand(half) {shape = [5, 1]}
  u : f32[5, 1] = noise_uniform(m) {span = 1.0, stream = 3}
)" + nodes + R"(
  d : f32[5, 1] = div(b, p)
  y : f32[5, 2] = mul(x, d)
  output y
})");
}

constexpr const char* kLess = "  c : bool[5, 1] = less(u, p)\n  b : f32[5, 1] = cast(c) {to = \"f32\"}";
constexpr const char* kFloor = "  c : f32[5, 1] = add(p, u)\n  b : f32[5, 1] = floor(c)";

RefTensor xs() {
  RefTensor x = RefTensor::zeros({DataType::f32(), {5, 2}});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = static_cast<double>(i) - 3.25;
  return x;
}

std::vector<double> output_of(const Graph& graph, std::vector<RefTensor> inputs) {
  return graph::evaluate(graph, testing::context().ops, std::move(inputs), graph::Rounding::kEachValue)
      .at(graph.outputs[0])
      .floats;
}

// Evaluation has no seed: what depth leaves is the branch itself, whatever the probability.
TEST(DropoutsOfOnes, EvaluationKeepsAll) {
  for (const char* nodes : {kLess, kFloor}) {
    const Graph after = with_dropouts_of_ones(with_noise(nodes), testing::context().ops);
    const auto dropout = std::ranges::find(after.nodes, "dropout", &graph::Node::op);
    ASSERT_NE(dropout, after.nodes.end()) << nodes;
    EXPECT_EQ(dropout->float_attr("ratio"), 0.25);
    EXPECT_EQ(dropout->int_attr("stream"), 3);
    EXPECT_EQ(std::ranges::count(after.nodes, "noise_uniform", &graph::Node::op), 0);
    EXPECT_EQ(output_of(after, {xs()}), xs().floats);
  }
}

// A step keeps some rows, 1 / p as large, and no others.
TEST(DropoutsOfOnes, StepsDropRows) {
  Graph after = with_dropouts_of_ones(with_noise(kLess), testing::context().ops);
  const graph::ValueId seed = after.add_input("seed", {DataType::i64(), {}});
  const graph::ValueId run = after.add_input("run", {DataType::i64(), {}});
  seed_numbers(after, seed, run);
  int kept = 0;
  constexpr int kRuns = 200;
  for (int r = 0; r < kRuns; ++r) {
    const std::vector<double> y =
        output_of(after, {xs(), {{DataType::i64(), {}}, {}, {7}}, {{DataType::i64(), {}}, {}, {r}}});
    for (size_t row = 0; row < 5; ++row) {
      const bool is_kept = y[2 * row] != 0;
      kept += is_kept ? 1 : 0;
      for (const size_t i : {2 * row, 2 * row + 1}) EXPECT_NEAR(y[i], is_kept ? xs().floats[i] / 0.75 : 0, 1e-5);
    }
  }
  EXPECT_NEAR(kept / (5.0 * kRuns), 0.75, 0.06);
}

// Another span, a mean that is no half, a threshold for each element: numbers as they are.
TEST(DropoutsOfOnes, OtherNumbersStay) {
  const auto stays = [](Graph g) {
    const Graph after = with_dropouts_of_ones(g, testing::context().ops);
    return std::ranges::count(after.nodes, "noise_uniform", &graph::Node::op) == 1;
  };
  Graph wide = with_noise(kLess);
  for (graph::Node& node : wide.nodes) {
    if (node.op == "noise_uniform") node.attrs["span"] = 2.0;
  }
  EXPECT_TRUE(stays(wide));
  EXPECT_TRUE(stays(with_noise("  c : bool[5, 1] = less(p, u)\n  b : f32[5, 1] = cast(c) {to = \"f32\"}")));
}

}  // namespace
}  // namespace tw::train
