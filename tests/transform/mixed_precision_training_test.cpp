// Mixed precision of what is trained: states, losses and what leads to them are computed in f32.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::ValueId;

Graph converted(const std::string& text, std::vector<StateNames> states) {
  TransformContext context = testing::context();
  context.dtype = DataType::f16();
  context.states = std::move(states);
  const Graph after = find_pass("mixed-precision").run(testing::parse(text), context);
  graph::verify(after, testing::context().ops);
  return after;
}

// The element types of all operands of floats of the nodes of an operator.
std::vector<DataType> operands_of(const Graph& graph, std::string_view op) {
  std::vector<DataType> types;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != op) continue;
    for (const ValueId id : node.inputs) {
      if (graph.value(id).type.type.is_float()) types.push_back(graph.value(id).type.type);
    }
  }
  return types;
}

void expect_operands(const Graph& graph, std::string_view op, DataType type) {
  const std::vector<DataType> found = operands_of(graph, op);
  EXPECT_FALSE(found.empty()) << op;
  for (const DataType t : found) EXPECT_EQ(t, type) << op << " in\n" << graph::to_string(graph);
}

const char* const kUpdate = R"(graph g {
  input x : f32[2, 4]
  input dy : f32[2, 4]
  input rate : f32[]
  input w : f32[4, 4]
  input b : f32[4]
  const half : f32[] = [0.5]
  y : f32[2, 4] = matmul(x, w) as y
  z : f32[2, 4] = add(y, b) as z
  r : f32[2, 4] = relu(z) as r
  m : f32[2, 4] = mul(r, dy) as m
  xt : f32[4, 2] = transpose(x) {perm = [1, 0]} as xt
  g : f32[4, 4] = matmul(xt, m) as g
  c : f32[4, 4] = div(g, half) as c
  d : f32[4, 4] = sub(w, c) as d
  w.next : f32[4, 4] = tanh(d) as d2
  s : f32[4] = reduce_sum(m) {axes = [0], keepdims = 0} as s
  b.next : f32[4] = sub(b, s) as t
  output w.next, b.next
})";

TEST(MixedPrecisionOfTraining, WhatAStateAddsUpIsF32) {
  const Graph g = converted(kUpdate, {{"w", "w.next"}, {"b", "b.next"}});
  expect_operands(g, "matmul", DataType::f16());
  expect_operands(g, "relu", DataType::f16());
  for (const char* op : {"div", "sub", "tanh", "reduce_sum"}) expect_operands(g, op, DataType::f32());
  EXPECT_EQ(g.value(g.find_value("w")).type.type, DataType::f32());
  expect_operands(converted(kUpdate, {}), "div", DataType::f16());
}

// A loss behind scores of several samples, with a label each.
TEST(MixedPrecisionOfTraining, ALossIsF32FromTheLastProductOn) {
  const std::string text = R"(graph g {
  input x : f32[2, 4]
  input labels : i64[2, 1]
  const w : f32[4, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
  y : f32[2, 3] = matmul(x, w) as y
  p : f32[2, 3] = relu(y) as p
  l : f32[2, 3] = log_softmax(p) {axis = 1} as l
  at : f32[2, 1] = gather_elements(l, labels) {axis = 1} as at
  mean : f32[1, 1] = reduce_mean(at) {axes = [0, 1], keepdims = 1} as mean
  loss : f32[] = reshape(mean) {shape = []} as loss
  )";
  const Graph g = converted(text + "output loss\n}", {});
  expect_operands(g, "matmul", DataType::f16());
  for (const char* op : {"log_softmax", "gather_elements", "reduce_mean"}) expect_operands(g, op, DataType::f32());
  const Graph scores = converted(text + "output l\n}", {});
  EXPECT_EQ(scores.value(scores.nodes.back().inputs[0]).type.type, DataType::f16()) << "of several numbers";
}

// A gradient that is f32 for the powers in it, and that products read in 16 bits: its sums read these, too, so that it
// is stored once. What others read in f32 stays that for all.
TEST(MixedPrecisionOfTraining, WhatProductsReadIsRoundedForSumsToo) {
  const auto text = [](const std::string& more) {
    return R"(graph g {
  input x : f32[2, 4]
  input w : f32[4, 4]
  const three : f32[] = [3.0]
  y : f32[2, 4] = matmul(x, w) as y
  p : f32[2, 4] = pow(y, three) as p
  t : f32[4, 2] = transpose(p) {perm = [1, 0]} as t
  g : f32[4, 4] = matmul(t, x) as g
  s : f32[4] = reduce_sum(p) {axes = [0], keepdims = 0} as s
)" + more + "}";
  };
  const auto read_by_sum = [](const Graph& graph) {
    const auto sum = std::ranges::find(graph.nodes, "reduce_sum", &graph::Node::op);
    const int from = graph.producers()[sum->inputs[0]];
    return graph.nodes[static_cast<size_t>(from)].op;
  };
  const Graph rounded = converted(text("  output g, s\n"), {});
  expect_operands(rounded, "transpose", DataType::f16());
  EXPECT_EQ(read_by_sum(rounded), "cast") << graph::to_string(rounded);
  const Graph whole = converted(text("  e : f32[2, 4] = exp(p) as e\n  output g, s, e\n"), {});
  expect_operands(whole, "transpose", DataType::f32());
  EXPECT_EQ(read_by_sum(whole), "pow") << graph::to_string(whole);
}

}  // namespace
}  // namespace tw::transform
