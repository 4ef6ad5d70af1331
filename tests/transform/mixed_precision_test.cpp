// Mixed precision: what becomes 16-bit, what stays f32, and that the function and the interface are kept.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::ValueId;
using testing::count_nodes;

TransformContext context_for(DataType dtype) {
  TransformContext context = testing::context();
  context.dtype = dtype;
  return context;
}

Graph converted(const Graph& before, DataType dtype = DataType::f16()) {
  const Graph after = find_pass("mixed-precision").run(before, context_for(dtype));
  graph::verify(after, testing::context().ops);
  return after;
}

Graph converted(const std::string& text, DataType dtype = DataType::f16()) {
  return converted(testing::parse(text), dtype);
}

// The type of the value that the only node of operator `op` gives.
DataType type_of(const Graph& graph, std::string_view op) {
  for (const graph::Node& node : graph.nodes) {
    if (node.op == op) return graph.value(node.outputs[0]).type.type;
  }
  ADD_FAILURE() << "no " << op << " in\n" << graph::to_string(graph);
  return {};
}

TEST(MixedPrecision, DoesNothingForF32) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph before = testing::random_graph(seed);
    EXPECT_EQ(graph::to_string(testing::run_pass(before, "mixed-precision")), graph::to_string(before));
  }
}

TEST(MixedPrecision, OtherFloatsAndIntegersAreLeftAlone) {
  for (uint64_t seed = 0; seed < 20; ++seed) {  // of f64
    const Graph before = testing::run_pass(testing::random_graph(seed), "canonicalize");
    EXPECT_EQ(graph::to_string(converted(before)), graph::to_string(graph::compact(before)));
  }
}

// Casts at the edges of a model whose interface is 16-bit are none once its inside is.
TEST(MixedPrecision, WhatWasNarrowStaysAsItIs) {
  const std::string text = R"(graph g {
  input x : f16[2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
  x1 : f32[2, 2] = cast(x) {to = "f32"} as x1
  x2 : f32[2, 2] = matmul(x1, w) as x2
  y : f16[2, 2] = cast(x2) {to = "f16"} as y
  output y
})";
  const Graph g = converted(text);
  EXPECT_EQ(count_nodes(g, "cast"), 0) << graph::to_string(g);
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
  EXPECT_EQ(count_nodes(converted(text, DataType::bf16()), "cast"), 4) << "f16 is no bf16";
}

// A graph of `op` alone on x, which is 16-bit as the result of a product. The type of what `op` gives.
DataType after_product(const std::string& call, const std::string& op, const std::string& constants = "") {
  const Graph g = converted(fmt::format(R"(graph g {{
  input x : f32[2, 2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
  {}
  x1 : f32[2, 2, 2] = matmul(x, w) as x1
  y : {} as y
  output y
}})",
                                        constants, call));
  EXPECT_EQ(type_of(g, "matmul"), DataType::f16());
  return type_of(g, op);
}

TEST(MixedPrecision, EveryTreatment) {
  const DataType f16 = DataType::f16(), f32 = DataType::f32();
  const std::string same = "f32[2, 2, 2] = ";
  for (const char* op : {"relu", "tanh", "sqrt", "log", "gelu", "neg"})
    EXPECT_EQ(after_product(fmt::format("{}{}(x1)", same, op), op), f16) << op;
  for (const char* op : {"exp", "sinh", "cosh", "tan", "reciprocal"})
    EXPECT_EQ(after_product(fmt::format("{}{}(x1)", same, op), op), f32) << op;
  for (const char* op : {"reduce_mean", "reduce_max", "reduce_min"})
    EXPECT_EQ(after_product(fmt::format("f32[2, 2, 1] = {}(x1) {{axes = [2], keepdims = 1}}", op), op), f16) << op;
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_l1", "reduce_sum_square"})
    EXPECT_EQ(after_product(fmt::format("f32[2, 2, 1] = {}(x1) {{axes = [2], keepdims = 1}}", op), op), f32) << op;
  for (const char* op : {"softmax", "log_softmax"})
    EXPECT_EQ(after_product(fmt::format("{}{}(x1) {{axis = -1}}", same, op), op), f16) << op;
  EXPECT_EQ(after_product("f32[4, 2] = reshape(x1) {shape = [4, 2]}", "reshape"), f16);
  EXPECT_EQ(after_product("f32[2, 2, 1] = max_pool(x1) {kernel_shape = [2]}", "max_pool"), f16);
  EXPECT_EQ(after_product("f32[2, 2, 1] = avg_pool(x1) {kernel_shape = [2]}", "avg_pool"), f16);
  EXPECT_EQ(after_product("f32[2, 2, 2] = mul(x1, x1)", "mul"), f32) << "a square";
  EXPECT_EQ(after_product("f32[2, 2, 2] = mul(x1, x)", "mul"), f16);
}

// Data is 16-bit, parameters of normalizations are not; the result is rounded once.
TEST(MixedPrecision, ParametersOfStatisticsStayF32) {
  const Graph g = converted(R"(graph g {
  input x : f32[2, 3]
  const w : f32[3, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
  const scale : f32[3] = [0.1, 0.2, 0.3]
  const shift : f32[3] = [0.4, 0.5, 0.6]
  x1 : f32[2, 3] = matmul(x, w) as x1
  n : f32[2, 3] = layer_norm(x1, scale, shift) {axis = -1, epsilon = 1e-12} as n
  y : f32[2, 3] = matmul(n, w) as y
  output y
})");
  EXPECT_EQ(type_of(g, "layer_norm"), DataType::f16());
  EXPECT_EQ(g.value(g.find_value("scale")).type.type, DataType::f32());
  EXPECT_EQ(g.find_value("w"), graph::kAbsent) << "weights in f32 are gone";
  EXPECT_EQ(count_nodes(g, "cast"), 2);  // of x and to y
}

// Data that is f32 for its range is not rounded before the statistics either.
TEST(MixedPrecision, WhatDoesNotFitStaysF32UpToTheNextProduct) {
  const std::string text = R"(graph g {{
  input x : f32[2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
  const c : f32[{0}] = [{1}]
  x1 : f32[2, 2] = matmul(x, w) as x1
  a : f32[2, 2] = add(x1, c) as a
  s : f32[2, 2] = softmax(a) {{axis = -1}} as s
  y : f32[2, 2] = matmul(s, w) as y
  output y
}})";
  struct Case {
    const char *shape, *elements;
    DataType dtype, sum;
  };
  const DataType f16 = DataType::f16(), bf16 = DataType::bf16(), f32 = DataType::f32();
  const Case cases[] = {{"2", "0.0, -1e9", f16, f32},     {"2", "0.0, -1e9", bf16, bf16},
                        {"", "-3.4028235e38", bf16, f32}, {"2", "0.0, -65504.0", f16, f16},
                        {"", "1e-12", f16, f32},          {"", "1e-12", bf16, bf16},
                        {"", "-inf", f16, f16},           {"2", "1.0, 1e-12", f16, f16}};
  for (const Case& c : cases) {
    const Graph g = converted(fmt::format(fmt::runtime(text), c.shape, c.elements), c.dtype);
    EXPECT_EQ(type_of(g, "add"), c.sum) << c.elements << " in " << to_string(c.dtype);
    EXPECT_EQ(type_of(g, "softmax"), c.sum);
    for (const graph::Node& node : g.nodes) {
      if (node.op != "matmul") continue;
      EXPECT_EQ(g.value(node.outputs[0]).type.type, c.dtype);
    }
  }
}

TEST(MixedPrecision, WeightsBeyondTheTypeKeepTheirProductF32) {
  const std::string text = R"(graph g {
  input x : f32[2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 1e6]
  y : f32[2, 2] = matmul(x, w) as y
  output y
})";
  EXPECT_EQ(type_of(converted(text), "matmul"), DataType::f32());
  EXPECT_EQ(type_of(converted(text, DataType::bf16()), "matmul"), DataType::bf16());
}

// Of what leads to whole numbers nothing is rounded: quantization, positions.
TEST(MixedPrecision, WholeNumbersAreMadeInF32) {
  const Graph g = converted(R"(graph g {
  input x : f32[2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
  const scale : f32[] = [0.0123]
  x1 : f32[2, 2] = matmul(x, w) as x1
  d : f32[2, 2] = div(x1, scale) as d
  r : f32[2, 2] = round(d) as r
  q : u8[2, 2] = cast(r) {to = "u8"} as q
  f : f32[2, 2] = cast(q) {to = "f32"} as f
  y : f32[2, 2] = mul(f, scale) as y
  output q, y
})");
  for (const char* op : {"div", "round", "mul"}) EXPECT_EQ(type_of(g, op), DataType::f32()) << op;
  EXPECT_EQ(g.value(g.find_value("scale")).type.type, DataType::f32());
}

// Rotary embeddings of positions that a run is given: an angle of a thousand, rounded, would be another one. What
// becomes of it is 16-bit.
TEST(MixedPrecision, AnglesAreF32) {
  const Graph g = converted(R"(graph g {
  input position : i64[1, 1, 1]
  input time : f32[1, 1]
  input x : f32[1, 1, 4]
  const frequencies : f32[1, 2, 1] = [1.0, 0.0123]
  const others : f32[1, 2] = [1.0, 0.0123]
  const w : f32[4, 4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]
  p : f32[1, 1, 1] = cast(position) {to = "f32"} as p
  m : f32[1, 2, 1] = matmul(frequencies, p) as m
  t : f32[1, 1, 2] = transpose(m) {perm = [0, 2, 1]} as t
  a : f32[1, 1, 4] = concat(t, t) {axis = 2} as a
  c : f32[1, 1, 4] = cos(a) as c
  h : f32[1, 1, 4] = matmul(x, w) as h
  r : f32[1, 1, 4] = mul(h, c) as r
  e : f32[1, 2] = mul(time, others) as e
  s : f32[1, 2] = sin(e) as s
  output r, s
})");
  for (const char* op : {"concat", "cos", "sin"}) EXPECT_EQ(type_of(g, op), DataType::f32()) << op;
  for (const char* name : {"frequencies", "others"}) EXPECT_NE(g.find_value(name), graph::kAbsent) << name << " is f32";
  EXPECT_EQ(g.find_value("w"), graph::kAbsent);
  for (const graph::Node& node : g.nodes) {
    const bool rotates = node.op == "mul" && g.value(node.inputs[0]).name == "h";
    if (rotates) EXPECT_EQ(g.value(node.outputs[0]).type.type, DataType::f16()) << graph::to_string(g);
  }
}

// Tables and weights are stored in 16 bits, indices are not touched.
TEST(MixedPrecision, TablesAreConstantsOfTheType) {
  const Graph g = converted(R"(graph g {
  input i : i64[3]
  const table : f32[2, 2] = [1.0, 0.1, 3.0, 4.0]
  y : f32[3, 2] = gather(table, i) {axis = 0} as y
  output y
})");
  EXPECT_EQ(type_of(g, "gather"), DataType::f16());
  EXPECT_EQ(g.value(g.inputs[0]).type.type, DataType::i64());
}

// Inputs stay as they are until they meet 16-bit values; outputs have their names, those that are read inside too.
TEST(MixedPrecision, TheInterfaceIsKept) {
  const Graph before = testing::parse(R"(graph g {
  input x : f32[2, 2]
  const w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
  const half : f32[] = [0.5]
  h : f32[2, 2] = mul(x, half) as h
  a : f32[2, 2] = matmul(h, w) as a
  b : f32[2, 2] = exp(a) as b
  y : f32[2, 2] = relu(a) as y
  output a, y, a, b, h, x
})");
  for (const DataType dtype : {DataType::f16(), DataType::bf16()}) {
    const Graph after = converted(before, dtype);
    EXPECT_EQ(after.value(after.find_value("h")).type.type, DataType::f32()) << "of an input and a number";
    testing::expect_same_function(before, after, dtype == DataType::f16() ? 0x1p-9 : 0x1p-5);
    EXPECT_EQ(graph::to_string(converted(after, dtype)), graph::to_string(after)) << "a second run changes nothing";
  }
}

}  // namespace
}  // namespace tw::transform
