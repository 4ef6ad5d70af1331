// Constant folding, batch norms, equal nodes, transposes.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::count_nodes;
using testing::parse;
using testing::run_pass;

constexpr double kReassociated = 1e-9;

Graph checked(const std::string& text, std::string_view pass, double tolerance = 0) {
  const Graph before = parse(text);
  const Graph after = run_pass(before, pass);
  testing::expect_same_function(before, after, tolerance);
  return after;
}

std::string ops_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

TEST(FoldConstants, EvaluatesAndRounds) {
  EXPECT_EQ(testing::after(R"(graph g {
  input x : f32[2, 2]
  const a : f32[2] = [1.0, 3.0]
  const b : f32[] = [3.0]
  c : f32[2] = div(a, b) as c
  y : f32[2, 2] = add(x, c) as y
  output y
})",
                           "fold-constants"),
            R"(graph g {
  input x : f32[2, 2]
  const c_1 : f32[2] = [0.33333334, 1.0]
  y : f32[2, 2] = add(x, c_1) as y
  output y
}
)");
}

// What is larger than its inputs is stored where the model's weights are larger still; a repetition is not.
TEST(FoldConstants, StoresShareOfTheWeights) {
  const auto ops = [](const std::string& op, int64_t weights) {
    Graph g = parse(fmt::format(R"(graph g {{
  input i : i64[1]
  input x : f32[{0}]
  input w : f32[{0}]
  input column : f32[2300, 1]
  input row : f32[1, 2300]
  p : f32[2300, 2300] = {1} as p
  g : f32[1, 2300] = gather(p, i) {{axis = 0}} as g
  y : f32[{0}] = add(x, w) as y
  output g, y
}})",
                                weights, op));
    for (const graph::ValueId id : std::vector(g.inputs.begin() + 2, g.inputs.end()))
      g.values[id].constant = share(graph::RefTensor::zeros(g.value(id).type).to_bytes());
    g.inputs.resize(2);
    return ops_of(run_pass(g, "fold-constants"));
  };
  EXPECT_EQ(ops("add(column, row)", 12'000'000), "gather add");
  EXPECT_EQ(ops("add(column, row)", 100'000), "add gather add");
  EXPECT_EQ(ops("expand(row) {shape = [2300, 2300]}", 12'000'000), "expand gather add");
}

TEST(FoldConstants, ChainsAndSeveralReaders) {
  const Graph g = checked(R"(graph g {
  input x : f64[3, 2]
  const a : f64[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  t : f64[3, 2] = transpose(a) {perm = [1, 0]} as t
  r : f64[6] = reshape(t) {shape = [6]} as r
  s : f64[3, 2] = reshape(r) {shape = [3, 2]} as s
  e : f64[3, 2] = exp(s) as e
  u : f64[3, 2] = mul(x, t) as u
  y : f64[3, 2] = add(u, e) as y
  output y
})",
                          "fold-constants");
  EXPECT_EQ(ops_of(g), "mul add");
}

TEST(FoldConstants, OutputsAreStillComputed) {
  const Graph g = checked(R"(graph g {
  const a : f64[2] = [1.0, 2.0]
  y : f64[2] = neg(a) as y
  output y
})",
                          "fold-constants");
  EXPECT_EQ(ops_of(g), "identity");
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
}

// A scalar must not become megabytes, and a large sum of products is not worth a minute.
TEST(FoldConstants, DoesNotBlowUp) {
  const Graph g = checked(R"(graph g {
  input x : f32[300, 300]
  const a : f32[] = [1.0]
  e : f32[300, 300] = expand(a) {shape = [300, 300]} as e
  y : f32[300, 300] = add(x, e) as y
  output y
})",
                          "fold-constants");
  EXPECT_EQ(ops_of(g), "expand add");
}

// Reshapes share the bytes of a weight, transposes move bytes: neither goes through f64.
TEST(FoldConstants, WeightsOfAnySizeMove) {
  Graph g;
  const int64_t rows = 3000;
  const int64_t columns = 4001;  // 48 MB of f32: more elements than are evaluated
  std::vector<std::byte> bytes(rows * columns * 4);
  const float marker = 7;
  std::memcpy(bytes.data() + (5 * columns + 2) * 4, &marker, 4);
  const graph::ValueId w = g.add_constant("w", {DataType::f32(), {rows, columns}}, share(std::move(bytes)));
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {1, columns}});
  const auto add = [&](const char* op, std::vector<graph::ValueId> inputs, graph::Attrs attrs) {
    return graph::append_node(g, testing::context().ops,
                              {.op = op,
                               .name = op,
                               .attrs = std::move(attrs),
                               .inputs = std::move(inputs),
                               .outputs = {},
                               .body = nullptr})[0];
  };
  const graph::ValueId t = add("transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}});
  const graph::ValueId r = add("reshape", {t}, {{"shape", std::vector<int64_t>{columns, rows}}});
  g.outputs = {add("matmul", {x, r}, {})};
  const Graph after = run_pass(g, "fold-constants");
  EXPECT_EQ(ops_of(after), "matmul");
  float found = 0;
  std::memcpy(&found, after.value(after.nodes[0].inputs[1]).constant->data() + (2 * rows + 5) * 4, 4);
  EXPECT_EQ(found, marker);
}

constexpr const char* kParameters = R"(
  const s : f64[2] = [2.0, -3.0]
  const b : f64[2] = [0.5, 1.5]
  const m : f64[2] = [0.25, -1.0]
  const v : f64[2] = [4.0, 0.5]
)";

TEST(FoldBatchNorm, IntoConvolutions) {
  for (const char* conv : {"conv(x, w) as c", "conv(x, w, b) as c", "conv(x, w, b) {group = 1} as c"}) {
    const Graph g =
        checked("graph g {\n  input x : f64[1, 3, 2, 2]\n  const w : f64[2, 3, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]" +
                    std::string(kParameters) + "  c : f64[1, 2, 2, 2] = " + conv +
                    "\n  n : f64[1, 2, 2, 2] = batch_norm(c, s, b, m, v) {epsilon = 1e-3} as n\n" +
                    "  y : f64[1, 2, 2, 2] = relu(n) as y\n  output y\n}",
                "fold-batch-norm", kReassociated);
    EXPECT_EQ(ops_of(g), "conv relu") << conv;
  }
}

TEST(FoldBatchNorm, IntoGroupedAndTransposedConvolutions) {
  const Graph grouped = checked("graph g {\n  input x : f64[1, 2, 3]\n  const w : f64[2, 1, 2] = [1.0, 2.0, 3.0, 4.0]" +
                                    std::string(kParameters) +
                                    "  c : f64[1, 2, 2] = conv(x, w) {group = 2} as c\n  y : f64[1, 2, 2] = "
                                    "batch_norm(c, s, b, m, v) as y\n  output y\n}",
                                "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(grouped), "conv");
  const Graph transposed = checked(R"(graph g {
  input x : f64[1, 4, 3]
  const w : f64[4, 2, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]
  const s : f64[4] = [2.0, -3.0, 0.5, 7.0]
  const b : f64[4] = [0.5, 1.5, 2.5, 3.5]
  const v : f64[4] = [4.0, 0.5, 1.0, 2.0]
  c : f64[1, 4, 4] = conv_transpose(x, w) {group = 2} as c
  y : f64[1, 4, 4] = batch_norm(c, s, b, b, v) as y
  output y
})",
                                   "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(transposed), "conv_transpose");
}

TEST(FoldBatchNorm, IntoMatmulLeavesTheShift) {
  const Graph g = checked(
      "graph g {\n  input x : f64[5, 3]\n  const w : f64[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]" +
          std::string(kParameters) +
          "  c : f64[5, 2] = matmul(x, w) as c\n  y : f64[5, 2] = batch_norm(c, s, b, m, v) as y\n  output y\n}",
      "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(g), "matmul add");
}

TEST(FoldBatchNorm, ArithmeticByChannelConstants) {
  const Graph g = checked(R"(graph g {
  input x : f64[1, 3, 2, 2]
  const w : f64[2, 3, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const s : f64[2, 1, 1] = [2.0, -3.0]
  const t : f64[1, 2, 1, 1] = [0.5, 4.0]
  const z : f64[] = [3.0]
  c : f64[1, 2, 2, 2] = conv(x, w) as c
  a : f64[1, 2, 2, 2] = mul(s, c) as a
  b : f64[1, 2, 2, 2] = add(a, t) as b
  d : f64[1, 2, 2, 2] = div(b, z) as d
  e : f64[1, 2, 2, 2] = sub(d, s) as e
  y : f64[1, 2, 2, 2] = sub(s, e) as y
  output y
})",
                          "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(g), "conv sub");
}

// A scale of queries goes back to the product that makes them; one of a product that others read stays.
TEST(FoldBatchNorm, FactorsBehindViewsAndBiases) {
  const Graph g = checked(R"(graph g {
  input x : f64[3, 2]
  const w : f64[2, 4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
  const b : f64[4] = [0.5, 1.0, 1.5, -2.0]
  const s : f64[] = [0.375]
  p : f64[3, 4] = matmul(x, w) as p
  q : f64[3, 4] = add(b, p) as q
  h : f64[3, 2, 2] = reshape(q) {shape = [3, 2, 2]} as h
  t : f64[2, 3, 2] = transpose(h) {perm = [1, 0, 2]} as t
  y : f64[2, 3, 2] = mul(t, s) as y
  r : f64[3, 4] = matmul(x, w) as r
  u : f64[4, 3] = transpose(r) {perm = [1, 0]} as u
  z : f64[4, 3] = div(u, s) as z
  output y, r, z
})",
                          "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(g), "matmul transpose div matmul add reshape transpose");
}

TEST(FoldBatchNorm, WhatIsReadElsewhereOrVariesOtherwiseStays) {
  const Graph g = checked(R"(graph g {
  input x : f64[1, 2, 2, 2]
  const w : f64[2, 2, 1, 1] = [1.0, 2.0, 3.0, 4.0]
  const s : f64[2, 1, 1] = [2.0, -3.0]
  const p : f64[2, 2] = [1.0, 2.0, 3.0, 4.0]
  c : f64[1, 2, 2, 2] = conv(x, w) as c
  a : f64[1, 2, 2, 2] = mul(c, s) as a
  d : f64[1, 2, 2, 2] = conv(x, w) as d
  e : f64[1, 2, 2, 2] = mul(d, p) as e
  q : f64[1, 2, 2, 2] = conv(x, w) as q
  y : f64[1, 2, 2, 2] = mul(q, x) as y
  output c, a, e, y
})",
                          "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(g), "conv mul conv mul conv mul");
}

TEST(FoldBatchNorm, ElsewhereMulAndAdd) {
  const Graph g = checked(
      "graph g {\n  input x : f64[3, 2, 2]" + std::string(kParameters) +
          "  r : f64[3, 2, 2] = relu(x) as r\n  y : f64[3, 2, 2] = batch_norm(r, s, b, m, v) as y\n  output y\n}",
      "fold-batch-norm", kReassociated);
  EXPECT_EQ(ops_of(g), "relu mul add");
}

TEST(FoldBatchNorm, VariableParametersStay) {
  const Graph g = checked(R"(graph g {
  input x : f64[3, 2, 2]
  input s : f64[2]
  const v : f64[2] = [4.0, 0.5]
  y : f64[3, 2, 2] = batch_norm(x, s, v, v, v) as y
  output y
})",
                          "fold-batch-norm");
  EXPECT_EQ(ops_of(g), "batch_norm");
}

TEST(CommonSubexpressions, EqualNodesAndConstants) {
  const Graph g = checked(R"(graph g {
  input x : f32[2]
  const a : f32[2] = [1.0, 2.0]
  const b : f32[2] = [1.0, 2.0]
  const c : f32[2] = [1.0, 3.0]
  const d : f32[1, 2] = [1.0, 2.0]
  p : f32[2] = add(x, a) as p
  q : f32[2] = add(x, b) as q
  r : f32[2] = add(x, c) as r
  s : f32[1, 2] = add(x, d) as s
  t : f32[2] = clip(p) {max = 1.0} as t
  u : f32[2] = clip(q) {max = 1.0} as u
  v : f32[2] = clip(q) {max = 2.0} as v
  w : f32[2] = mul(t, u) as w
  y : f32[2] = add(w, v) as y
  output y, r, s
})",
                          "common-subexpressions");
  EXPECT_EQ(count_nodes(g, "add"), 4);
  EXPECT_EQ(count_nodes(g, "clip"), 2);
}

TEST(CommonSubexpressions, TwoOutputsStayTwo) {
  const Graph g = checked(R"(graph g {
  input x : f32[2]
  y : f32[2] = relu(x) as y
  z : f32[2] = relu(x) as z
  output y, z
})",
                          "common-subexpressions");
  EXPECT_EQ(ops_of(g), "relu identity");
}

TEST(DeadCode, OnlyWhatIsNeeded) {
  const Graph g = checked(R"(graph g {
  input x : f32[2]
  const c : f32[2] = [1.0, 2.0]
  a : f32[2] = add(x, c) as a
  y : f32[2] = relu(x) as y
  output y
})",
                          "dead-code");
  EXPECT_EQ(ops_of(g), "relu");
  EXPECT_EQ(g.values.size(), 2u);
}

TEST(SinkTransposes, CancelBehindElementwiseOperators) {
  const Graph g = checked(R"(graph g {
  input x : f32[1, 2, 3, 4]
  const s : f32[2] = [2.0, 3.0]
  const t : f32[3, 4, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
  a : f32[1, 3, 4, 2] = transpose(x) {perm = [0, 2, 3, 1]} as a
  b : f32[1, 3, 4, 2] = mul(a, s) as b
  c : f32[1, 3, 4, 2] = add(t, b) as c
  d : f32[1, 3, 4, 2] = relu(c) as d
  y : f32[1, 2, 3, 4] = transpose(d) {perm = [0, 3, 1, 2]} as y
  output y
})",
                          "sink-transposes");
  EXPECT_EQ(ops_of(g), "mul add relu");
}

TEST(SinkTransposes, SeveralOperandsAndConcat) {
  const Graph g = checked(R"(graph g {
  input x : f32[2, 3, 4]
  input z : f32[2, 3, 4]
  a : f32[4, 2, 3] = transpose(x) {perm = [2, 0, 1]} as a
  b : f32[4, 2, 3] = transpose(z) {perm = [2, 0, 1]} as b
  c : f32[4, 2, 3] = max(a, b) as c
  d : f32[4, 2, 3] = transpose(z) {perm = [2, 0, 1]} as d
  y : f32[4, 2, 6] = concat(c, d) {axis = -1} as y
  output y
})",
                          "sink-transposes");
  EXPECT_EQ(ops_of(g), "max concat transpose");
  EXPECT_EQ(g.nodes[1].int_attr("axis"), 1);
}

TEST(SinkTransposes, StaysWhereNothingIsGained) {
  const char* others = R"(graph g {
  input x : f32[2, 3]
  input z : f32[3, 2]
  input w : f32[2, 3]
  a : f32[3, 2] = transpose(x) {perm = [1, 0]} as a
  b : f32[3, 2] = add(a, z) as b
  c : f32[3, 2] = transpose(w) {perm = [1, 0]} as c
  d : f32[3, 2] = neg(c) as d
  y : f32[3, 2] = mul(d, c) as y
  output y, b
})";
  const Graph g = checked(others, "sink-transposes");
  EXPECT_EQ(count_nodes(g, "transpose"), 2);
  // A batch norm knows its channels by their place.
  const Graph n = checked(R"(graph g {
  input x : f32[2, 2]
  const s : f32[2] = [2.0, 3.0]
  a : f32[2, 2] = transpose(x) {perm = [1, 0]} as a
  y : f32[2, 2] = batch_norm(a, s, s, s, s) as y
  output y
})",
                          "sink-transposes");
  EXPECT_EQ(ops_of(n), "transpose batch_norm");
}

TEST(SinkTransposes, WhatBecomesEqualOnTheWayIsOne) {
  const Graph g = checked(R"(graph g {
  input x : f32[2, 3]
  t : f32[3, 2] = transpose(x) {perm = [1, 0]} as t
  a : f16[3, 2] = cast(t) {to = "f16"} as a
  b : f16[2, 3] = cast(x) {to = "f16"} as b
  output a, b
})",
                          "sink-transposes");
  EXPECT_EQ(count_nodes(g, "cast"), 1);
}

}  // namespace
}  // namespace tw::transform
