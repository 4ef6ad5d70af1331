// An element of each row that is read at a computed place is a sum of the row.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::RefTensor;
using testing::parse;

int64_t count(const Graph& graph, std::string_view op) { return std::ranges::count(graph.nodes, op, &graph::Node::op); }

Graph losses(const std::string& rows, const std::string& index) {
  return parse("graph g {\n  input x : f32[3, 5]\n  input label : " + index + "\n  p : f32[3, 5] = " + rows +
               "(x) {axis = 1} as p\n  y : f32[3, 1] = gather_elements(p, label) {axis = 1} as y\n  output y\n}");
}

TEST(SumPicks, OfRowsOfASoftmax) {
  for (const char* index : {"i64[3, 1]", "i32[3, 1]"}) {
    for (const char* rows : {"softmax", "log_softmax"}) {
      const Graph before = losses(rows, index), after = testing::run_pass(before, "sum-picks");
      EXPECT_EQ(count(after, "gather_elements"), 0) << graph::to_string(after);
      EXPECT_EQ(count(after, "pick"), 1);
      RefTensor x = RefTensor::zeros({DataType::f32(), {3, 5}});
      for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = static_cast<double>(i * i % 7);
      RefTensor label = RefTensor::zeros(before.value(before.inputs[1]).type);
      label.ints = {4, -1, 0};
      const std::vector<RefTensor> a = testing::outputs_of(before, {x, label}),
                                   b = testing::outputs_of(after, {x, label});
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[0].floats[i], b[0].floats[i], 1e-12);
    }
  }
}

// A row that leaves the graph is stored; several elements of a row, and those along another axis, are read.
TEST(SumPicks, OtherReadsStay) {
  // Along which axis rows are, how many elements each gives, of what, and what else leaves the graph.
  const auto text = [](int axis, int picked, const std::string& read, const std::string& more) {
    return fmt::format(R"(graph g {{
  input x : f32[3, 5]
  input label : i64[3, {1}]
  p : f32[3, 5] = softmax(x) {{axis = {0}}} as p
  y : f32[3, {1}] = gather_elements({2}, label) {{axis = 1}} as y
  output y{3}
}})",
                       axis, picked, read, more);
  };
  for (const std::string& other :
       {text(1, 1, "p", ", p"), text(1, 2, "p", ""), text(0, 1, "p", ""), text(1, 1, "x", "")})
    EXPECT_EQ(count(testing::run_pass(parse(other), "sum-picks"), "gather_elements"), 1) << other;
  EXPECT_EQ(count(testing::run_pass(parse(text(1, 1, "p", "")), "sum-picks"), "gather_elements"), 0);
}

// What a loss hands back to a row is nothing but at its label: its sum is that.
TEST(SumPicks, SumsOfWhatIsTheSameInARow) {
  const Graph before = parse(R"(graph g {
  input label : i64[3, 1]
  input dy : f32[3, 1]
  d : f32[3, 5] = pick(label, dy) {axis = 1, extent = 5} as d
  s : f32[3, 1] = reduce_sum(d) {axes = [1], keepdims = 1} as s
  t : f32[3] = reduce_sum(d) {axes = [1], keepdims = 0} as t
  u : f32[1, 5] = reduce_sum(d) {axes = [0], keepdims = 1} as u
  output s, t, u
})");
  const Graph after = testing::run_pass(before, "sum-picks");
  EXPECT_EQ(count(after, "reduce_sum"), 1) << "along other axes it is a sum\n" << graph::to_string(after);
  RefTensor label = RefTensor::zeros({DataType::i64(), {3, 1}}), dy = RefTensor::zeros({DataType::f32(), {3, 1}});
  label.ints = {4, -1, 5};
  dy.floats = {2, 3, 4};
  const std::vector<RefTensor> a = testing::outputs_of(before, {label, dy}),
                               b = testing::outputs_of(after, {label, dy});
  for (size_t k = 0; k < a.size(); ++k) EXPECT_EQ(a[k].floats, b[k].floats) << k;
}

}  // namespace
}  // namespace tw::transform
