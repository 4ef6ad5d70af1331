// Queries that share keys: rows of one product, which reads keys and values as they are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::count_nodes;
using testing::parse;

struct Sizes {
  int64_t batch, groups, shared, queries, keys, depth;
};

// Keys and values repeated as torch's exporters do it, with a mask and a scale.
Graph repeated(const Sizes& s, const std::string& mask) {
  return parse(fmt::format(R"(graph g {{
  input q : f32[{0}, {6}, {3}, {5}]
  input k : f32[{0}, {1}, {4}, {5}]
  input v : f32[{0}, {1}, {4}, {5}]
  input mask : f32[{7}]
  const scale : f32[] = [0.125]
  k1 : f32[{0}, {1}, 1, {4}, {5}] = reshape(k) {{shape = [{0}, {1}, 1, {4}, {5}]}} as k1
  k2 : f32[{0}, {1}, {2}, {4}, {5}] = expand(k1) {{shape = [{0}, {1}, {2}, {4}, {5}]}} as k2
  k3 : f32[{0}, {1}, {2}, {5}, {4}] = transpose(k2) {{perm = [0, 1, 2, 4, 3]}} as k3
  k4 : f32[{0}, {6}, {5}, {4}] = reshape(k3) {{shape = [{0}, {6}, {5}, {4}]}} as k4
  v1 : f32[{0}, {1}, 1, {4}, {5}] = reshape(v) {{shape = [{0}, {1}, 1, {4}, {5}]}} as v1
  v2 : f32[{0}, {1}, {2}, {4}, {5}] = expand(v1) {{shape = [{0}, {1}, {2}, {4}, {5}]}} as v2
  v3 : f32[{0}, {6}, {4}, {5}] = reshape(v2) {{shape = [{0}, {6}, {4}, {5}]}} as v3
  s : f32[{0}, {6}, {3}, {4}] = matmul(q, k4) as s
  t : f32[{0}, {6}, {3}, {4}] = mul(s, scale) as t
  m : f32[{0}, {6}, {3}, {4}] = add(t, mask) as m
  p : f32[{0}, {6}, {3}, {4}] = softmax(m) {{axis = 3}} as p
  y : f32[{0}, {6}, {3}, {5}] = matmul(p, v3) as y
  output y
}})",
                           s.batch, s.groups, s.shared, s.queries, s.keys, s.depth, s.groups * s.shared, mask));
}

Graph joined(const Graph& before) {
  const Graph after = testing::run_pass(before, "join-rows");
  testing::expect_same_function(before, after, 1e-5);
  testing::expect_same_special_values(before, after, 1e-5);
  return after;
}

TEST(JoinRows, KeysAreReadAsTheyAre) {
  for (const Sizes& s : {Sizes{1, 2, 4, 1, 9, 5}, {2, 3, 2, 3, 7, 4}, {2, 1, 8, 5, 6, 3}}) {
    const std::string masks[] = {
        fmt::format("{}, 1, 1, {}", s.batch, s.keys), fmt::format("{}, 1, {}, {}", s.batch, s.queries, s.keys),
        fmt::format("{}, {}, {}, {}", s.batch, s.groups * s.shared, s.queries, s.keys), fmt::format("{}", s.keys)};
    for (const std::string& mask : masks) {
      SCOPED_TRACE(fmt::format("{} groups of {}, {} queries, mask [{}]", s.groups, s.shared, s.queries, mask));
      const Graph after = testing::run_pass(joined(repeated(s, mask)), "canonicalize");
      // A mask of rows is repeated for the heads of a group where they are several.
      EXPECT_LE(count_nodes(after, "expand"), 1);
      for (const graph::Node& node : after.nodes) {
        if (node.op != "matmul") continue;
        EXPECT_EQ(after.value(node.outputs[0]).type.shape[2], s.shared * s.queries) << graph::to_string(after);
      }
    }
  }
}

TEST(JoinRows, OneKeyHeadIsBroadcast) {
  const Graph before = parse(R"(graph g {
  input q : f32[2, 6, 3, 5]
  input k : f32[2, 1, 5, 7]
  s : f32[2, 6, 3, 7] = matmul(q, k) as s
  p : f32[2, 6, 3, 7] = softmax(s) {axis = 3} as p
  output p
})");
  const Graph after = joined(before);
  const auto product = std::ranges::find(after.nodes, "matmul", &graph::Node::op);
  EXPECT_EQ(after.value(product->outputs[0]).type.shape, (Shape{2, 1, 18, 7}));
}

TEST(JoinRows, WhatIsNoGroupStays) {
  const auto unchanged = [](const Graph& before) {
    const Graph after = joined(before);
    EXPECT_EQ(graph::to_string(after), graph::to_string(graph::compact(before)));
  };
  unchanged(repeated({1, 2, 4, 33, 9, 5}, "9"));  // rows of several tiles
  unchanged(parse(R"(graph g {
  input q : f32[2, 6, 3, 5]
  input k : f32[1, 1, 5, 7]
  k1 : f32[1, 6, 5, 7] = expand(k) {shape = [1, 6, 5, 7]} as k1
  s : f32[2, 6, 3, 7] = matmul(q, k1) as s
  output s
})"));
}

// Elements in an order that is not that of heads: of h = i * 2 + group, no group is neighbours.
TEST(JoinRows, HeadsThatAlternateStay) {
  const Graph before = parse(R"(graph g {
  input q : f32[1, 6, 1, 5]
  input k : f32[1, 2, 5, 7]
  k1 : f32[1, 1, 2, 5, 7] = reshape(k) {shape = [1, 1, 2, 5, 7]} as k1
  k2 : f32[1, 3, 2, 5, 7] = expand(k1) {shape = [1, 3, 2, 5, 7]} as k2
  k3 : f32[1, 6, 5, 7] = reshape(k2) {shape = [1, 6, 5, 7]} as k3
  s : f32[1, 6, 1, 7] = matmul(q, k3) as s
  output s
})");
  EXPECT_EQ(count_nodes(joined(before), "expand"), 1);
}

}  // namespace
}  // namespace tw::transform
