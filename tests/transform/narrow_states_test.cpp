// States of rows are stored in 16 bits; others keep their type.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"
#include "transform/rewrite/states.h"

namespace tw::transform {
namespace {

using graph::Graph;

constexpr const char* kCache = R"(graph g {
  input x : f32[2, 1, 4]
  input at : i64[1]
  input past : f32[2, 8, 4]
  next : f32[2, 8, 4] = update_slice(past, x, at) {axis = 1} as next
  y : f32[2, 8, 4] = relu(next) as y
  output y, next
})";

Graph narrowed(const std::string& text, DataType dtype) {
  const Graph after = narrow_states(testing::parse(text), testing::context().ops, {{"past", "next"}}, dtype);
  graph::verify(after, testing::context().ops);
  return after;
}

TEST(NarrowStates, CachesOfRows) {
  for (const DataType dtype : {DataType::f16(), DataType::bf16()}) {
    const Graph after = narrowed(kCache, dtype);
    EXPECT_EQ(after.value(after.find_value("past")).type.type, dtype);
    EXPECT_EQ(after.value(after.find_value("next")).type.type, dtype);
    EXPECT_EQ(after.value(after.find_value("y")).type.type, DataType::f32());
    EXPECT_EQ(after.outputs.size(), 2U);
  }
  EXPECT_EQ(graph::to_string(narrowed(kCache, DataType::f32())), graph::to_string(testing::parse(kCache)));
}

// A model with edges of 16 bits casts the whole cache to and fro.
TEST(NarrowStates, CachesOfRowsBetweenCasts) {
  const Graph after = narrowed(R"(graph g {
  input x : f32[2, 1, 4]
  input at : i64[1]
  input past : f16[2, 8, 4]
  wide : f32[2, 8, 4] = cast(past) {to = "f32"} as wide
  updated : f32[2, 8, 4] = update_slice(wide, x, at) {axis = 1} as updated
  y : f32[2, 8, 4] = relu(updated) as y
  next : f16[2, 8, 4] = cast(updated) {to = "f16"} as next
  output y, next
})",
                               DataType::f16());
  const graph::Node& update = after.nodes[static_cast<size_t>(after.producer(after.find_value("next")))];
  EXPECT_EQ(update.op, "update_slice");
  EXPECT_EQ(update.inputs[0], after.find_value("past"));
  EXPECT_EQ(testing::count_nodes(after, "cast"), 2) << "of the row, and for the reader";
}

TEST(NarrowStates, WhatIsComputedOfItselfStays) {
  const std::string text = R"(graph g {
  input x : f32[2, 8, 4]
  input past : f32[2, 8, 4]
  next : f32[2, 8, 4] = add(past, x) as next
  output next
})";
  EXPECT_EQ(graph::to_string(narrowed(text, DataType::f16())), graph::to_string(testing::parse(text)));
}

}  // namespace
}  // namespace tw::transform
