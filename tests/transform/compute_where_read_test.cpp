// Who computes for himself what is a step or two from a value that is stored.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::parse;

// Operators of the groups in their order: "sub+reduce_sum mul".
std::string grouped(const std::string& text,
                    const std::vector<std::string_view>& passes = {"compute-where-read", "fuse"}) {
  const Graph before = parse(text);
  Graph after = before;
  for (const std::string_view pass : passes) after = find_pass(pass).run(after, testing::context());
  testing::expect_same_function(before, after, 1e-6);
  std::string all;
  for (const graph::Node& node : after.nodes) {
    std::string ops = node.is_group() ? "" : node.op;
    if (node.is_group()) {
      for (const graph::Node& inner : node.body->nodes) ops += (ops.empty() ? "" : "+") + inner.op;
    }
    all += (all.empty() ? "" : " ") + ops;
  }
  return all;
}

// x - mean as both passes of a batch norm read it: columns of it are summed, and it is scaled.
constexpr std::string_view kCentred = R"g(graph g {
  input x : f32[8, 4, 16] layout "reorder(0, 2, 1)"
  input m : f32[1, 4, 1]
  c : f32[8, 4, 16] layout "reorder(0, 2, 1)" = sub(x, m) as c
  s : f32[1, 4, 1] = reduce_sum_square(c) {axes = [0, 2], keepdims = 1} as s
  y : f32[8, 4, 16] layout "reorder(0, 2, 1)" = mul(c, s) as y
  output y
})g";

TEST(ComputeWhereRead, WhatIsAStepFromAStoredValue) {
  EXPECT_EQ(grouped(std::string(kCentred), {"fuse"}), "sub reduce_sum_square mul");
  EXPECT_EQ(grouped(std::string(kCentred)), "sub+reduce_sum_square sub+mul");
}

TEST(ComputeWhereRead, NotOfTwoValuesOfItsSize) {
  std::string text(kCentred);
  text.replace(text.find("m : f32[1, 4, 1]"), 16, R"g(m : f32[8, 4, 16] layout "reorder(0, 2, 1)")g");
  EXPECT_EQ(grouped(text), "sub reduce_sum_square mul");
}

TEST(ComputeWhereRead, NotOfWhatTakesLonger) {
  std::string text(kCentred);
  text.replace(text.find("sub(x, m)"), 9, "exp(x)");
  EXPECT_EQ(grouped(text), "exp reduce_sum_square mul");
}

TEST(ComputeWhereRead, NotOfRows) {
  std::string text(kCentred);
  for (size_t at = text.find(" layout"); at != std::string::npos; at = text.find(" layout")) text.erase(at, 26);
  EXPECT_EQ(grouped(text), "sub reduce_sum_square mul");
}

// The narrower one of two values of which each is stored for the other's readers.
TEST(ComputeWhereRead, TheNarrowerValueIsStored) {
  EXPECT_EQ(grouped(R"g(graph g {
  input x : f16[8, 4, 16] layout "reorder(0, 2, 1)"
  input z : f16[8, 4, 16] layout "reorder(0, 2, 1)"
  p : f16[8, 4, 16] layout "reorder(0, 2, 1)" = mul(x, z) as p
  w : f32[8, 4, 16] layout "reorder(0, 2, 1)" = cast(p) {to = "f32"} as w
  s : f32[1, 4, 1] = reduce_sum(w) {axes = [0, 2], keepdims = 1} as s
  y : f32[8, 4, 16] layout "reorder(0, 2, 1)" = mul(w, s) as y
  output y
})g"),
            "mul cast+reduce_sum cast+mul");
}

// A part of a value, each group for itself: none waits for another.
TEST(ComputeWhereRead, PartsOfStoredValuesToo) {
  EXPECT_EQ(grouped(R"g(graph g {
  input x : f32[8, 4, 16] layout "reorder(0, 2, 1)"
  f : f32[1, 4, 1] = slice(x) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [1, 4, 1]} as f
  c : f32[8, 4, 16] layout "reorder(0, 2, 1)" = sub(x, f) as c
  s : f32[1, 4, 1] = reduce_sum(c) {axes = [0, 2], keepdims = 1} as s
  q : f32[1, 4, 1] = reduce_sum_square(c) {axes = [0, 2], keepdims = 1} as q
  output s, q
})g"),
            "slice+sub+reduce_sum slice+sub+reduce_sum_square");
}

}  // namespace
}  // namespace tw::transform
