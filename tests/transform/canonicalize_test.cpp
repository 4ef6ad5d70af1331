#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::count_nodes;
using testing::parse;
using testing::run_pass;

constexpr double kPattern = 1e-9;  // a decomposed operator in f64 against the operator

// After the pass; the function must be the same.
Graph canonical(const std::string& text, double tolerance = 0) {
  const Graph before = parse(text);
  const Graph after = run_pass(before, "canonicalize");
  testing::expect_same_function(before, after, tolerance);
  return after;
}

// "relu(x) neg(v)": the operators in order.
std::string ops_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

TEST(Canonicalize, NoOpsDisappear) {
  EXPECT_EQ(graph::to_string(canonical(R"(graph g {
  input x : f32[2, 3]
  a : f32[2, 3] = identity(x) as a
  b : f32[2, 3] = reshape(a) {shape = [2, 3]} as b
  c : f32[2, 3] = transpose(b) {perm = [0, 1]} as c
  d : f32[2, 3] = cast(c) {to = "f32"} as d
  e : f32[2, 3] = slice(d) {starts = [0, 0], steps = [1, 1], extents = [2, 3]} as e
  f : f32[2, 3] = expand(e) {shape = [2, 3]} as f
  h : f32[2, 3] = concat(f) {axis = 1} as h
  i : f32[2, 3] = tile(h) {repeats = [1, 1]} as i
  j : f32[2, 3] = pad(i) {pads = [0, 0, 0, 0]} as j
  y : f32[2, 3] = relu(j) as y
  output y
})")),
            R"(graph g {
  input x : f32[2, 3]
  y : f32[2, 3] = relu(x) as y
  output y
}
)");
}

TEST(Canonicalize, WhatOnlyLooksLikeANoOpStays) {
  const Graph g = canonical(R"(graph g {
  input x : f32[2, 2]
  a : f32[2, 2] = transpose(x) {perm = [1, 0]} as a
  b : f32[2, 2] = slice(a) {starts = [1, 0], steps = [-1, 1], extents = [2, 2]} as b
  y : f32[2, 2] = pad(b) {pads = [1, 0, -1, 0]} as y
  output y
})");
  EXPECT_EQ(ops_of(g), "transpose slice pad");
}

// Back from a type that holds every number of the first one.
TEST(Canonicalize, CastsThereAndBack) {
  const auto ops = [](const char* from, const char* over, const char* to) {
    return ops_of(canonical(fmt::format(R"(graph g {{
  input x : {0}[2]
  a : {1}[2] = cast(x) {{to = "{1}"}} as a
  b : {2}[2] = cast(a) {{to = "{2}"}} as b
  y : {2}[2] = abs(b) as y
  output y
}})",
                                        from, over, to)));
  };
  EXPECT_EQ(ops("f16", "f32", "f16"), "abs");
  EXPECT_EQ(ops("bf16", "f64", "bf16"), "abs");
  EXPECT_EQ(ops("i8", "i32", "i8"), "abs");
  for (const auto [from, over, to] : {std::array{"f32", "f16", "f32"},
                                      {"f16", "bf16", "f16"},
                                      {"f16", "f32", "bf16"},
                                      {"i64", "f64", "i64"},
                                      {"f16", "i32", "f16"}})
    EXPECT_EQ(ops(from, over, to), "cast cast abs") << from << " " << over << " " << to;
}

// An output keeps its name, also when it is what an input or another output is.
TEST(Canonicalize, OutputsKeepTheirNames) {
  const Graph g = canonical(R"(graph g {
  input x : f32[2]
  a : f32[2] = relu(x) as a
  y : f32[2] = identity(a) as y
  z : f32[2] = identity(a) as z
  w : f32[2] = identity(x) as w
  output y, z, w
})");
  EXPECT_EQ(ops_of(g), "relu identity identity");
  for (const char* name : {"y", "z", "w"}) EXPECT_TRUE(g.is_output(g.find_value(name))) << name;
}

TEST(Canonicalize, ChainsOfMovementMerge) {
  const Graph g = canonical(R"(graph g {
  input x : f32[2, 3, 4]
  a : f32[6, 4] = reshape(x) {shape = [6, 4]} as a
  b : f32[4, 6] = reshape(a) {shape = [4, 6]} as b
  c : f32[3, 4, 2] = transpose(x) {perm = [1, 2, 0]} as c
  d : f32[4, 3, 2] = transpose(c) {perm = [1, 0, 2]} as d
  e : f32[4, 2, 3] = transpose(x) {perm = [2, 0, 1]} as e
  f : f32[2, 3, 4] = transpose(e) {perm = [1, 2, 0]} as f
  s : f32[2, 2, 4] = slice(x) {starts = [0, 2, 0], steps = [1, -1, 1], extents = [2, 2, 4]} as s
  t : f32[2, 1, 2] = slice(s) {starts = [0, 1, 1], steps = [1, 1, 2], extents = [2, 1, 2]} as t
  h : f32[2, 3, 4] = relu(f) as h
  output b, d, h, t
})");
  ASSERT_EQ(ops_of(g), "relu reshape transpose slice");
  EXPECT_EQ(g.nodes[3].ints_attr("starts"), (std::vector<int64_t>{0, 1, 1}));
}

TEST(Canonicalize, TransposeOfUnitDimsIsAReshape) {
  const Graph g = canonical(R"(graph g {
  input x : f32[1, 5, 1, 4]
  y : f32[1, 1, 5, 4] = transpose(x) {perm = [0, 2, 1, 3]} as y
  output y
})");
  EXPECT_EQ(ops_of(g), "reshape");
}

TEST(Canonicalize, PowersAndDivisions) {
  const Graph g = canonical(R"(graph g {
  input x : f32[3]
  const two : f32[] = [2.0]
  const half : f32[1] = [0.5]
  const one : f32[] = [1.0]
  const minus : f32[] = [-1.0]
  const eight : f32[3] = [8.0, -2.0, 0.25]
  const three : f32[] = [3.0]
  a : f32[3] = pow(x, two) as a
  b : f32[3] = pow(a, half) as b
  c : f32[3] = pow(b, one) as c
  d : f32[3] = pow(c, minus) as d
  e : f32[3] = div(d, eight) as e
  f : f32[3] = div(e, three) as f
  y : f32[3] = pow(f, three) as y
  output y
})");
  // The root of minus infinity is NaN, its power 0.5 is infinity: that stays a power.
  EXPECT_EQ(ops_of(g), "mul pow reciprocal mul div pow");
}

TEST(Canonicalize, IntegersAreNotMultipliedByFractions) {
  const Graph g = canonical(R"(graph g {
  input x : i32[3]
  const two : i32[] = [2]
  const one : i32[] = [1]
  a : i32[3] = div(x, two) as a
  b : i32[3] = mul(a, one) as b
  y : i32[3] = pow(b, two) as y
  output y
})");
  EXPECT_EQ(ops_of(g), "div mul");
}

TEST(Canonicalize, NeutralElements) {
  const Graph g = canonical(R"(graph g {
  input x : f32[3]
  const one : f32[1] = [1.0]
  const zero : f32[] = [0.0]
  const wide : f32[2, 3] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
  a : f32[3] = mul(one, x) as a
  b : f32[3] = div(a, one) as b
  c : f32[3] = sub(b, zero) as c
  d : f32[3] = sub(zero, c) as d
  e : f32[3] = add(d, zero) as e
  y : f32[2, 3] = mul(e, wide) as y
  output y
})");
  EXPECT_EQ(ops_of(g), "sub add mul");  // 0 - x, x + 0 (-0 + 0 is 0), and a broadcast
}

TEST(Canonicalize, ConditionsThatAreTheSameEverywhere) {
  const Graph g = canonical(R"(graph g {
  input x : f32[3]
  input w : f32[2, 3]
  const yes : bool[1] = [1]
  const no : bool[3] = [0, 0, 0]
  const some : bool[3] = [1, 0, 1]
  a : f32[3] = exp(x) as a
  b : f32[3] = where(yes, x, a) as b
  c : f32[3] = where(no, a, b) as c
  d : f32[3] = where(some, c, x) as d
  y : f32[2, 3] = where(no, w, d) as y
  output y
})");
  EXPECT_EQ(ops_of(g), "where expand") << "elements that differ, and a side that is broadcast";
}

constexpr const char* kRowMean = "{axes = [-1], keepdims = 1}";

std::string layer_norm_text(const std::string& square, const std::string& variance_axes) {
  return R"(graph g {
  input x : f64[2, 3, 5]
  const two : f64[] = [2.0]
  const eps : f64[] = [1e-2]
  const scale : f64[5] = [1.0, 2.0, 3.0, 4.0, 5.0]
  const bias : f64[5] = [5.0, 4.0, 3.0, 2.0, 1.0]
  m : f64[2, 3, 1] = reduce_mean(x) )" +
         std::string(kRowMean) + R"( as m
  d : f64[2, 3, 5] = sub(x, m) as d
  q : f64[2, 3, 5] = )" +
         square + R"( as q
  v : f64[2, 3, 1] = reduce_mean(q) )" +
         variance_axes + R"( as v
  a : f64[2, 3, 1] = add(v, eps) as a
  s : f64[2, 3, 1] = sqrt(a) as s
  n : f64[2, 3, 5] = div(d, s) as n
  w : f64[2, 3, 5] = mul(scale, n) as w
  y : f64[2, 3, 5] = add(w, bias) as y
  output y
})";
}

TEST(Canonicalize, DecomposedLayerNorm) {
  for (const char* square : {"pow(d, two)", "mul(d, d)"}) {
    const Graph g = canonical(layer_norm_text(square, kRowMean), kPattern);
    EXPECT_EQ(ops_of(g), "layer_norm") << square;
    EXPECT_EQ(g.nodes[0].inputs.size(), 3u);
    EXPECT_EQ(g.nodes[0].int_attr("axis"), 2);
    EXPECT_EQ(g.nodes[0].float_attr("epsilon"), 1e-2);
  }
}

// Of a mean of squares and a positive number both are the same.
TEST(Canonicalize, LayerNormByAPowerOfOneHalf) {
  std::string text = layer_norm_text("mul(d, d)", kRowMean);
  const size_t root = text.find("sqrt(");
  ASSERT_NE(root, std::string::npos);
  text.replace(root, 5, "pow(");
  text.insert(text.find(')', root), ", half");
  text.insert(text.find("  input x"), "  const half : f64[] = [0.5]\n");
  EXPECT_EQ(ops_of(canonical(text, kPattern)), "layer_norm");
}

TEST(Canonicalize, NotQuiteALayerNorm) {
  EXPECT_EQ(count_nodes(canonical(layer_norm_text("mul(d, x)", kRowMean), kPattern), "layer_norm"), 0);
  const std::string other_axes = layer_norm_text("mul(d, d)", "{axes = [-1], keepdims = 1}");
  std::string moved = other_axes;
  moved.replace(moved.find("{axes = [-1], keepdims = 1} as m"), 27, "{axes = [1], keepdims = 1}");
  size_t at = 0;
  while ((at = moved.find("m : f64[2, 3, 1]")) != std::string::npos) moved.replace(at, 16, "m : f64[2, 1, 5]");
  EXPECT_EQ(count_nodes(canonical(moved, kPattern), "layer_norm"), 0);
}

std::string gelu_text(const std::string& last_lines) {
  return R"(graph g {
  input x : f64[7]
  const root : f64[] = [1.4142135623730951]
  const inverse : f64[] = [0.7071067811865475]
  const one : f64[] = [1.0]
  const half : f64[1] = [0.5]
  const third : f64[] = [0.3333]
  d : f64[7] = div(x, root) as d
  i : f64[7] = mul(inverse, x) as i
  e : f64[7] = erf(d) as e
  j : f64[7] = erf(i) as j
  a : f64[7] = add(e, one) as a
  b : f64[7] = add(one, j) as b
)" + last_lines +
         "\n  output y\n}";
}

// Queries, keys and values of one product: heads of one view.
TEST(Canonicalize, ReshapesComeBeforeSlices) {
  const auto slice_of = [](const char* start, const char* extent) {
    return fmt::format(R"(graph g {{
  input x : f64[2, 5, 36]
  s : f64[2, 5, {1}] = slice(x) {{starts = [0, 0, {0}], steps = [1, 1, 1], extents = [2, 5, {1}]}} as s
  r : f64[2, 5, {2}, 4] = reshape(s) {{shape = [2, 5, {2}, 4]}} as r
  y : f64[2, {2}, 5, 4] = transpose(r) {{perm = [0, 2, 1, 3]}} as y
  output y
}})",
                       start, extent, std::stoi(extent) / 4);
  };
  const Graph g = canonical(slice_of("12", "12"), 0);
  EXPECT_EQ(ops_of(g), "reshape slice transpose");
  EXPECT_EQ(g.value(g.nodes[0].outputs[0]).type.shape, (Shape{2, 5, 9, 4}));
  EXPECT_EQ(g.nodes[1].ints_attr("starts"), (std::vector<int64_t>{0, 0, 3, 0}));
  EXPECT_EQ(ops_of(canonical(slice_of("10", "12"), 0)), "slice reshape transpose") << "within a head";
  EXPECT_EQ(ops_of(canonical(slice_of("0", "36"), 0)), "reshape transpose");
  // The first of the rows.
  EXPECT_EQ(ops_of(canonical(R"(graph g {
  input x : f64[2, 5, 6]
  s : f64[2, 1, 6] = slice(x) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [2, 1, 6]} as s
  r : f64[2, 6] = reshape(s) {shape = [2, 6]} as r
  y : f64[2, 6] = tanh(r) as y
  output y
})",
                             0)),
            "reshape slice tanh");
}

// What a transformer of three dims does to a product of two: a bias, an activation, and back.
TEST(Canonicalize, ReshapesComeAfterElementwiseOperators) {
  const Graph g = canonical(R"(graph g {
  input x : f64[10, 4]
  input b : f64[6]
  const w : f64[4, 6] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]
  const two : f64[] = [2.0]
  p : f64[10, 6] = matmul(x, w) as p
  r : f64[2, 5, 6] = reshape(p) {shape = [2, 5, 6]} as r
  a : f64[2, 5, 6] = add(b, r) as a
  m : f64[2, 5, 6] = mul(a, two) as m
  t : f64[2, 5, 6] = tanh(m) as t
  y : f64[10, 6] = reshape(t) {shape = [10, 6]} as y
  output y
})",
                            0);
  EXPECT_EQ(ops_of(g), "matmul add mul tanh");
  const auto last = [](const char* rest) {
    return fmt::format(R"(graph g {{
  input x : f64[4, 6]
  input s : f64[2, 1, 6]
  input c : f64[3]
  r : f64[2, 2, 6] = reshape(x) {{shape = [2, 2, 6]}} as r
  q : f64[8, 3] = reshape(x) {{shape = [8, 3]}} as q
{}
}})",
                       rest);
  };
  EXPECT_EQ(ops_of(canonical(last("  y : f64[2, 2, 6] = add(r, s) as y\n  output y"), 0)), "reshape add");
  EXPECT_EQ(ops_of(canonical(last("  y : f64[8, 3] = add(q, c) as y\n  output y"), 0)), "reshape add");
  EXPECT_EQ(ops_of(canonical(last("  y : f64[2, 2, 6] = tanh(r) as y\n  output y"), 0)), "tanh reshape");
  EXPECT_EQ(ops_of(canonical(last("  y : f64[2, 2, 6] = tanh(r) as y\n  output y, r"), 0)), "reshape tanh");
}

TEST(Canonicalize, DecomposedGelu) {
  for (const char* lines : {"  m : f64[7] = mul(x, a) as m\n  y : f64[7] = mul(m, half) as y",  //
                            "  m : f64[7] = mul(x, half) as m\n  y : f64[7] = mul(m, b) as y",  //
                            "  m : f64[7] = mul(half, b) as m\n  y : f64[7] = mul(m, x) as y",  //
                            "  m : f64[7] = mul(half, a) as m\n  y : f64[7] = mul(x, m) as y"}) {
    EXPECT_EQ(ops_of(canonical(gelu_text(lines), kPattern)), "gelu") << lines;
  }
  // Another factor, a missing factor, another argument.
  for (const char* lines :
       {"  m : f64[7] = mul(x, a) as m\n  y : f64[7] = mul(m, third) as y", "  y : f64[7] = mul(x, a) as y",
        "  m : f64[7] = mul(d, a) as m\n  y : f64[7] = mul(m, half) as y"}) {
    EXPECT_EQ(count_nodes(canonical(gelu_text(lines), kPattern), "gelu"), 0) << lines;
  }
}

// By tanh, its cubic spelled in many ways.
TEST(Canonicalize, GeluByTanh) {
  const auto model = [](const std::string& lines) {
    return R"(graph g {
  input x : f64[7]
  const cubic : f64[] = [0.044715]
  const root : f64[] = [0.7978845608028654]
  const both : f64[] = [0.035677408136300125]
  const three : f64[] = [3.0]
  const one : f64[] = [1.0]
  const half : f64[1] = [0.5]
)" + lines +
           R"(
  t : f64[7] = tanh(u) as t
  g : f64[7] = add(one, t) as g
  h : f64[7] = mul(half, x) as h
  y : f64[7] = mul(h, g) as y
  output y
})";
  };
  for (const char* lines : {R"(  p : f64[7] = pow(x, three) as p
  q : f64[7] = mul(cubic, p) as q
  s : f64[7] = add(x, q) as s
  u : f64[7] = mul(root, s) as u)",
                            R"(  p : f64[7] = mul(x, x) as p
  q : f64[7] = mul(cubic, p) as q
  s : f64[7] = add(q, one) as s
  v : f64[7] = mul(root, x) as v
  u : f64[7] = mul(v, s) as u)",
                            R"(  p : f64[7] = mul(x, x) as p
  q : f64[7] = mul(p, both) as q
  s : f64[7] = add(q, root) as s
  u : f64[7] = mul(s, x) as u)"}) {
    EXPECT_EQ(ops_of(canonical(model(lines), kPattern)), "gelu_tanh") << lines;
  }
  for (const char* lines : {R"(  p : f64[7] = pow(x, three) as p
  q : f64[7] = mul(root, p) as q
  s : f64[7] = add(x, q) as s
  u : f64[7] = mul(cubic, s) as u)",
                            R"(  p : f64[7] = mul(x, x) as p
  q : f64[7] = mul(p, p) as q
  u : f64[7] = mul(q, both) as u)"}) {
    EXPECT_EQ(count_nodes(canonical(model(lines), kPattern), "gelu_tanh"), 0) << lines;
  }
}

// The argument of a GELU may be a product itself.
TEST(Canonicalize, GeluOfAProduct) {
  const Graph g = canonical(R"(graph g {
  input u : f64[7]
  input v : f64[7]
  const root : f64[] = [1.4142135623730951]
  const one : f64[] = [1.0]
  const half : f64[] = [0.5]
  x : f64[7] = mul(u, v) as x
  d : f64[7] = div(x, root) as d
  e : f64[7] = erf(d) as e
  a : f64[7] = add(e, one) as a
  m : f64[7] = mul(x, a) as m
  y : f64[7] = mul(m, half) as y
  output y
})",
                            kPattern);
  EXPECT_EQ(ops_of(g), "mul gelu");
}

TEST(Canonicalize, Gates) {
  const Graph g = canonical(R"(graph g {
  input x : f64[7]
  input z : f64[7]
  s : f64[7] = sigmoid(x) as s
  a : f64[7] = mul(s, x) as a
  p : f64[7] = softplus(a) as p
  t : f64[7] = tanh(p) as t
  b : f64[7] = mul(a, t) as b
  h : f64[7] = hard_sigmoid(b) {alpha = 0.16666666666666666, beta = 0.5} as h
  c : f64[7] = mul(b, h) as c
  q : f64[7] = sigmoid(c) as q
  y : f64[7] = mul(q, z) as y
  output y
})",
                            kPattern);
  EXPECT_EQ(ops_of(g), "silu mish hard_swish sigmoid mul");
}

// Kernel positions that only meet padding go, where the padding can follow.
TEST(Canonicalize, ConvolutionWithoutFilterPositionsInThePadding) {
  struct Case {
    std::string attributes;
    Shape out, kernel;
  };
  const Case cases[] = {
      {"pads = [6, 6, 6, 6], dilations = [6, 6]", {5, 5}, {1, 1}},
      {"pads = [6, 1, 6, 1], dilations = [6, 1]", {5, 5}, {1, 3}},
      {"pads = [5, 4, 5, 3], dilations = [5, 4], strides = [1, 2]", {5, 2}, {1, 2}},
      {"pads = [1, 1, 1, 1], dilations = [2, 2], strides = [10, 10]", {1, 1}, {3, 3}},
      {"pads = [1, 1, 1, 1]", {5, 5}, {3, 3}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.attributes);
    const Graph before = parse(
        fmt::format("graph g {{\n  input x : f32[1, 2, 5, 5]\n  input w : f32[3, 2, 3, 3]\n  y : f32[1, 3, {}, {}] = "
                    "conv(x, w) {{{}}} as y\n  output y\n}}",
                    c.out[0], c.out[1], c.attributes));
    const Graph after = run_pass(before, "canonicalize");
    testing::expect_same_function(before, after, 1e-12);
    const graph::Node& conv = after.nodes.back();
    ASSERT_EQ(conv.op, "conv");
    const Shape& w = after.value(conv.inputs[1]).type.shape;
    EXPECT_EQ(Shape(w.begin() + 2, w.end()), c.kernel);
  }
}

}  // namespace
}  // namespace tw::transform
