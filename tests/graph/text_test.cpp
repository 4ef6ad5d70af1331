#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "sample.h"
#include "support/error.h"

namespace tw::graph::test {
namespace {

void expect_round_trip(const Graph& g) {
  const std::string text = to_string(g);
  const Graph again = parse_graph(text, large_constants(g));
  EXPECT_EQ(text, to_string(again)) << text;
}

TEST(GraphText, Golden) {
  EXPECT_EQ(to_string(compact(mlp(2, 3, 2))),
            "graph mlp {\n"
            "  input x : f32[2, 3]\n"
            "  const w : f32[3, 2] = [-6.0, -5.0, -4.0, -3.0, -2.0, -1.0]\n"
            "  const b : f32[2] = [0.0, 0.1]\n"
            "  matmul : f32[2, 2] = matmul(x, w) as matmul\n"
            "  add : f32[2, 2] = add(matmul, b) as add\n"
            "  relu : f32[2, 2] = relu(add) as relu\n"
            "  output relu\n"
            "}\n");
}

TEST(GraphText, LargeConstantsAndGroups) {
  for (int64_t n : {1, 5, 17}) {
    expect_round_trip(mlp(3, 7, n));
    expect_round_trip(grouped(3, 7, n));
  }
  const Graph g = grouped(3, 7, 5);
  const auto constants = large_constants(g);
  ASSERT_EQ(constants.size(), 1u);
  const Graph again = parse_graph(to_string(g), constants);
  verify(again, table());
  EXPECT_EQ(again.nodes[0].body->values[again.nodes[0].body->nodes[0].inputs[1]].constant, constants.begin()->second);
}

TEST(GraphText, EveryAttributeKind) {
  Graph g;
  g.name = "attributes of every kind";
  const ValueId x = g.add_input("input", f32({2}));
  Node node{.op = "relu",
            .name = "conv1/\"odd\" name",
            .attrs = {},
            .inputs = {x, kAbsent, x},
            .outputs = {},
            .body = nullptr};
  node.attrs = {{"int", int64_t{-3}},
                {"least", INT64_MIN},
                {"float", 3.0},
                {"small", 1e-300},
                {"infinity", -std::numeric_limits<double>::infinity()},
                {"string", std::string("a \"b\"\n")},
                {"ints", std::vector<int64_t>{1, -2}},
                {"no_ints", std::vector<int64_t>{}},
                {"floats", std::vector<double>{1, -0.5}},
                {"no_floats", std::vector<double>{}},
                {"strings", std::vector<std::string>{"x", ""}},
                {"no_strings", std::vector<std::string>{}}};
  g.outputs = g.add_node(node, {f32({2}), f32({0, 3})});
  g.values[g.outputs[0]].layout = Layout().split(0, {1, 2}).pad(0, 0, 3);
  g.values[g.outputs[1]].name = "output";  // keywords are names where ':' or ',' follows
  expect_round_trip(g);
  const Graph again = parse_graph(to_string(g), {});
  EXPECT_EQ(again.nodes[0].attrs, node.attrs);
  EXPECT_EQ(again.nodes[0].name, node.name);
  EXPECT_EQ(again.nodes[0].inputs[1], kAbsent);
  EXPECT_EQ(again.value(again.outputs[0]).layout, g.value(g.outputs[0]).layout);
}

// Random bit patterns of every type come back bit by bit: written out, or by reference where text would lose a NaN's
// bits.
TEST(GraphText, ConstantsKeepTheirBits) {
  std::mt19937_64 random(7);
  for (const char* name : {"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"}) {
    for (int64_t n : {0, 1, 3, 16, 17}) {
      const TensorType type{*parse_data_type(name), {n}};
      std::vector<std::byte> bytes(type.bytes());
      for (std::byte& b : bytes) b = static_cast<std::byte>(type.type.is_bool() ? random() % 2 : random() % 256);
      Graph g;
      g.name = name;
      g.outputs = {g.add_constant("c", type, share(bytes))};
      const Graph again = parse_graph(to_string(g), large_constants(g));
      EXPECT_TRUE(std::ranges::equal(*again.value(again.outputs[0]).constant, bytes)) << to_string(g);
    }
  }
}

TEST(GraphText, SpecialFloats) {
  Graph g;
  g.name = "floats";
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{inf, -inf, -0.0f, 1e-45f, 3.4028235e38f, 0.1f};
  g.outputs = {g.add_constant("c", f32({6}), bytes_of(values))};
  EXPECT_TRUE(large_constants(g).empty());
  EXPECT_TRUE(std::ranges::equal(*parse_graph(to_string(g), {}).values[0].constant, *bytes_of(values)));
}

void expect_error(const std::string& text, const std::string& message) {
  try {
    parse_graph(text, {});
    FAIL() << "no error for " << text;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

TEST(GraphText, Errors) {
  expect_error("graph g {\n  output x\n}", "line 2, column 10: there is no value 'x'");
  expect_error("graph g {\n  input x : f31[2]\n output x }", "no element type");
  expect_error("graph g {\n  input x : f32[-2]\n output x }", "negative");
  expect_error("graph g {\n  input x : f32[4611686018427387904, 4]\n output x }", "too large");
  expect_error("graph g {\n  input x : f32[2]\n  input x : f32[2]\n output x }", "defined twice");
  expect_error("graph g {\n  const c : f32[2] = [1.0]\n output c }", "line 2");
  expect_error("graph g {\n  const c : f32[2] = data c.0\n output c }", "not given");
  expect_error("graph g {\n  input x : f32[2] layout \"split(0, 3, 3)\"\n output x }", "line 2");
  expect_error("graph g {\n  input x : f32[2]\n  y : f32[2] = relu(x) {a = 1, a = 2}\n output y }", "given twice");
  expect_error("graph g {\n  input x : f32[2]\n  output x", "line 3");
  expect_error("graph g {\n  input x : f32[2]\n  output x } rest", "the end");
  expect_error("", "graph");
}

TEST(GraphText, WrongDataSize) {
  const Graph g = mlp(3, 7, 5);
  auto constants = large_constants(g);
  constants.begin()->second = bytes_of(std::vector<float>(3));
  EXPECT_THROW(parse_graph(to_string(g), constants), UserError);
}

}  // namespace
}  // namespace tw::graph::test
