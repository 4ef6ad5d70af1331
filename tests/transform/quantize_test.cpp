// Quantization around products and movement: what becomes narrow, that it computes the same, and what stays and why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::count_nodes;

// x of `type` as a real r: (x - zero) scale.
std::string dequantized(const std::string& x, const std::string& r, const std::string& type, const std::string& shape,
                        const std::string& zero = "z", const std::string& scale = "s") {
  return fmt::format(R"(
  {1}_wide : i32[{3}] = cast({0}) {{to = "i32"}} as {1}
  {1}_zero : i32[{5}] = cast({4}) {{to = "i32"}} as {1}
  {1}_less : i32[{3}] = sub({1}_wide, {1}_zero) as {1}
  {1}_real : f32[{3}] = cast({1}_less) {{to = "f32"}} as {1}
  {1} : f32[{3}] = mul({1}_real, {6}) as {1})",
                     x, r, type, shape, zero, zero == "z" || zero == "w0" ? "" : "1, 5", scale);
}

std::string quantized(const std::string& r, const std::string& q, const std::string& shape) {
  return fmt::format(R"(
  {1}_steps : f32[{2}] = div({0}, s) as {1}
  {1}_whole : f32[{2}] = round({1}_steps) as {1}
  {1}_from : f32[] = cast(z) {{to = "f32"}} as {1}
  {1}_sum : f32[{2}] = add({1}_whole, {1}_from) as {1}
  {1}_in : f32[{2}] = clip({1}_sum) {{max = 255.0, min = 0.0}} as {1}
  {1} : u8[{2}] = cast({1}_in) {{to = "u8"}} as {1})",
                     r, q, shape);
}

constexpr const char* kConstants = R"(
  const s : f32[] = [0.125]
  const z : u8[] = [11]
  const t : f32[1, 5] = [0.5, 0.25, 0.125, 1.0, 2.0]
  const w0 : i8[] = [3]
  const each : i8[1, 5] = [1, -2, 3, 0, 5])";

TransformContext with_log(ReasonLog& log) {
  TransformContext context = testing::context();
  context.log = &log;
  return context;
}

Graph narrowed(const Graph& before, ReasonLog& log) {
  const TransformContext context = with_log(log);
  Graph after = find_pass("narrow-products").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, 0x1p-20);
  return after;
}

Graph product(const std::string& zero, const std::string& scale) {
  return testing::parse("graph g {\n  input x : u8[3, 8]\n  input w : i8[8, 5]" + std::string(kConstants) +
                        dequantized("x", "a", "u8", "3, 8") + dequantized("w", "b", "i8", "8, 5", zero, scale) + R"(
  y : f32[3, 5] = matmul(a, b) as y
  output y
})");
}

TEST(NarrowProducts, OneScaleOrOneForEachColumn) {
  for (const char* zero : {"w0", "each"}) {
    for (const char* scale : {"s", "t"}) {
      ReasonLog log;
      const Graph after = narrowed(product(zero, scale), log);
      EXPECT_EQ(count_nodes(after, "matmul_integer"), 1);
      EXPECT_EQ(count_nodes(after, "matmul"), 0);
      EXPECT_EQ(log.products().at("y").rule, "narrow");
    }
  }
}

TEST(NarrowProducts, OfWhatIsMoved) {
  ReasonLog log;
  const Graph before =
      testing::parse("graph g {\n  input x : u8[2, 3, 8]\n  input w : u8[2, 3, 8]" + std::string(kConstants) +
                     dequantized("x", "a", "u8", "2, 3, 8") + dequantized("w", "b", "u8", "2, 3, 8") + R"(
  turned : f32[2, 8, 3] = transpose(b) {perm = [0, 2, 1]} as turned
  y : f32[2, 3, 3] = matmul(a, turned) as y
  output y
})");
  EXPECT_EQ(count_nodes(narrowed(before, log), "matmul_integer"), 1);
}

TEST(NarrowProducts, OfConvolutionsWithABias) {
  ReasonLog log;
  const auto conv = [&](const std::string& channels, const std::string& each, const std::string& group) {
    return testing::parse("graph g {\n  input x : u8[1, " + channels + ", 6, 6]\n  input w : i8[4, " + each +
                          ", 3, 3]\n  input bias : f32[4]" + std::string(kConstants) +
                          dequantized("x", "a", "u8", "1, " + channels + ", 6, 6") +
                          dequantized("w", "b", "i8", "4, " + each + ", 3, 3", "w0") + R"(
  y : f32[1, 4, 6, 6] = conv(a, b, bias) {group = )" +
                          group + R"(, pads = [1, 1, 1, 1]} as y
  output y
})");
  };
  EXPECT_EQ(count_nodes(narrowed(conv("8", "8", "1"), log), "conv_integer"), 1);
  EXPECT_EQ(count_nodes(narrowed(conv("4", "1", "4"), log), "conv_integer"), 0);
  EXPECT_EQ(log.products().at("y").rule, "channels");
}

TEST(NarrowProducts, StayFloatForAReason) {
  const auto rule_of = [](const std::string& text) {
    ReasonLog log;
    const Graph after = narrowed(testing::parse(text), log);
    EXPECT_EQ(count_nodes(after, "matmul_integer"), 0);
    return log.products().contains("y") ? log.products().at("y").rule : "";
  };
  const std::string head =
      "graph g {\n  input x : u8[3, 5]\n  input w : i8[5, 5]\n  input f : f32[3, 5]" + std::string(kConstants);
  const auto tail = [](const std::string& a, const std::string& b) {
    return "\n  y : f32[3, 5] = matmul(" + a + ", " + b + ") as y\n  output y\n}";
  };
  const std::string b = dequantized("w", "b", "i8", "5, 5", "w0");
  EXPECT_EQ(rule_of(head + b + tail("f", "b")), "float-operand");
  EXPECT_EQ(rule_of(head + dequantized("x", "a", "u8", "3, 5", "z", "t") + b + tail("a", "b")), "scales");
  EXPECT_EQ(rule_of("graph g {\n  input f : f32[3, 5]\n  input e : f32[5, 5]" + tail("f", "e")), "");
}

TEST(MoveQuantized, WhatIsQuantizedAsItWasIsNotDequantized) {
  const auto moved = [](const std::string& move) {
    const Graph before = testing::parse("graph g {\n  input x : u8[2, 6]" + std::string(kConstants) +
                                        dequantized("x", "a", "u8", "2, 6") + move);
    const Graph after = testing::run_pass(before, "move-quantized");
    testing::expect_same_function(before, after, 0);
    return count_nodes(after, "round");
  };
  EXPECT_EQ(
      moved("\n  m : f32[6, 2] = transpose(a) {perm = [1, 0]} as m" + quantized("m", "q", "6, 2") + "\n  output q\n}"),
      0);
  EXPECT_EQ(moved("\n  m : f32[4, 6] = concat(a, a) {axis = 0} as m" + quantized("m", "q", "4, 6") + "\n  output q\n}"),
            0);
  EXPECT_EQ(moved(quantized("a", "q", "2, 6") + "\n  output q\n}"), 0);
  EXPECT_EQ(moved("\n  m : f32[2, 6] = neg(a) as m" + quantized("m", "q", "2, 6") + "\n  output q\n}"), 1);
}

TEST(QuantizeByProducts, UnlessStrict) {
  std::string text =
      "graph g {\n  input r : f32[2, 6]" + std::string(kConstants) + quantized("r", "q", "2, 6") + "\n  output q\n}";
  text.replace(text.find("[0.125]"), 7, "[0.1]");
  const Graph before = testing::parse(text);
  const Graph after = testing::run_pass(before, "quantize-by-products");
  EXPECT_EQ(count_nodes(after, "div"), 0);
  testing::expect_same_function(before, after, 0);
  TransformContext strict = testing::context();
  strict.precision = Precision::kStrict;
  EXPECT_EQ(count_nodes(find_pass("quantize-by-products").run(before, strict), "div"), 1);
}

TEST(UnsignedActivations, OfProductsOfQuads) {
  const Graph before = testing::parse(R"(graph g {
  input r : f32[3, 8]
  input w : i8[8, 5]
  const s : f32[] = [0.1]
  const z : i8[] = [-7]
  steps : f32[3, 8] = div(r, s) as q
  whole : f32[3, 8] = round(steps) as q
  zero : f32[] = cast(z) {to = "f32"} as q
  sum : f32[3, 8] = add(whole, zero) as q
  in : f32[3, 8] = clip(sum) {max = 127.0, min = -128.0} as q
  q : i8[3, 8] = cast(in) {to = "i8"} as q
  y : i32[3, 5] = matmul_integer(q, w, z) as y
  also : i32[3, 8] = cast(q) {to = "i32"} as also
  output y, also
})");
  TransformContext context = testing::context();
  EXPECT_EQ(graph::to_string(find_pass("unsigned-activations").run(before, context)), graph::to_string(before));
  context.target.features.push_back("avx512vnni");
  const Graph after = find_pass("unsigned-activations").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, 0);
  for (const graph::Node& node : after.nodes) {
    if (node.op != "matmul_integer") continue;
    EXPECT_EQ(after.value(node.inputs[0]).type.type, DataType(ScalarType::kU8));
  }
}

}  // namespace
}  // namespace tw::transform
