// Sums along the rows of weights times their gradient are sums of what the weights' product gives times its gradient.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

graph::Graph moved(const graph::Graph& graph) { return move_row_dots(graph, testing::context()); }

// p [2, 5, 7] v [2, 7, 3]; g is the gradient of the product. `keys` is what g is multiplied by, `axis` that of the sum.
std::string attention(const std::string& keys, int axis, const std::string& p = "p", const std::string& dp = "x") {
  return fmt::format(R"(graph g {{
  input p : f32[2, 5, 7]
  input rows : f32[2, 7, 3]
  input other : f32[2, 3, 7]
  input g : f32[2, 5, 3]
  input seed : i64[]
  input step : i64[]
  dropped : f32[2, 5, 7] = dropout(p, seed, step) {{ratio = 0.5, stream = 0}}
  turned : f32[2, 3, 7] = transpose(rows) {{perm = [0, 2, 1]}}
  o : f32[2, 5, 3] = matmul({}, rows)
  x : f32[2, 5, 7] = matmul(g, {})
  dx : f32[2, 5, 7] = dropout(x, seed, step) {{ratio = 0.5, stream = 0}}
  ex : f32[2, 5, 7] = dropout(x, seed, step) {{ratio = 0.5, stream = 1}}
  dots : f32[2, 5, 7] = mul({}, p)
  sums : f32[{}] = reduce_sum(dots) {{axes = [{}], keepdims = 1}}
  y : f32[2, 5, 7] = sub({}, sums)
  output o, y
}})",
                     p, keys, dp, axis == 2 ? "2, 5, 1" : "2, 1, 7", axis, dp);
}

int64_t summed(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    if (node.op == "reduce_sum") return graph.value(node.inputs[0]).type.shape.back();
  }
  return 0;
}

void expect_moved(const std::string& text, int64_t columns) {
  const graph::Graph before = testing::parse(text), after = moved(before);
  EXPECT_EQ(summed(after), columns);
  testing::expect_same_function(before, after, 1e-5);
}

TEST(RowDots, OfWeightsAreOfTheirProduct) { expect_moved(attention("turned", 2), 3); }

TEST(RowDots, OfDroppedWeightsToo) { expect_moved(attention("turned", 2, "dropped", "dx"), 3); }

TEST(RowDots, WhereOtherElementsAreDroppedTheyStay) {
  expect_moved(attention("turned", 2, "dropped", "ex"), 7);
  expect_moved(attention("turned", 2, "dropped", "x"), 7);
  expect_moved(attention("turned", 2, "p", "dx"), 7);
}

TEST(RowDots, OfOtherMatricesStay) { expect_moved(attention("other", 2), 7); }

TEST(RowDots, OfAllElementsStay) {
  std::string text = attention("turned", 2);
  const std::string sums = "f32[2, 5, 1] = reduce_sum(dots) {axes = [2], keepdims = 1}";
  text.replace(text.find(sums), sums.size(), "f32[1, 1, 1] = reduce_sum(dots) {keepdims = 1}");
  expect_moved(text, 7);
}

TEST(RowDots, AlongColumnsStay) { expect_moved(attention("turned", 1), 7); }

}  // namespace
}  // namespace tw::transform
