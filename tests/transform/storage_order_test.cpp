// Reshapes that move no bytes, against the place of every element.
#include "transform/storage_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tw::transform {
namespace {

// The place of each element, in logical order.
std::vector<int64_t> places_of(const graph::Value& value) {
  const Shape& shape = value.type.shape;
  const std::vector<int64_t> order = *storage_order(value.layout, shape.size());
  std::vector<int64_t> stride(shape.size()), places;
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= shape[order[i]]) stride[order[i]] = step;
  for (int64_t e = 0; e < num_elements(shape); ++e) {
    int64_t place = 0, rest = e;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) place += rest % shape[d] * stride[d];
    places.push_back(place);
  }
  return places;
}

graph::Value value_of(const std::string& name, Shape shape, std::mt19937& random) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (random() % 4 != 0) std::ranges::shuffle(order, random);
  return {name, {DataType::f32(), std::move(shape)}, layout_of_order(order), nullptr};
}

TEST(StorageOrder, AReshapeIsAViewWhereNoElementMoves) {
  const std::vector<Shape> shapes = {{24},         {4, 6},       {6, 4},       {2, 12},         {2, 3, 4},   {4, 3, 2},
                                     {1, 24},      {4, 1, 6},    {2, 2, 6},    {2, 2, 3, 2},    {3, 8},      {12, 2, 1},
                                     {2, 1, 3, 4}, {1, 6, 1, 4}, {1, 1, 4, 6}, {3, 2, 1, 2, 2}, {6, 2, 2, 1}};
  std::mt19937 random(5);
  int views = 0;
  for (int round = 0; round < 20000; ++round) {
    graph::Graph g;
    g.values = {value_of("x", shapes[random() % shapes.size()], random),
                value_of("y", shapes[random() % shapes.size()], random)};
    g.nodes = {
        {.op = "reshape", .name = "r", .attrs = {{"shape", g.values[1].type.shape}}, .inputs = {0}, .outputs = {1}}};
    const bool stays = places_of(g.values[0]) == places_of(g.values[1]);
    ASSERT_EQ(is_view(g, g.nodes[0]), stays)
        << to_string(g.values[0].type.shape) << " " << to_string(g.values[0].layout) << " -> "
        << to_string(g.values[1].type.shape) << " " << to_string(g.values[1].layout);
    views += stays ? 1 : 0;
  }
  EXPECT_GT(views, 1000);
}

TEST(StorageOrder, BytesAreWordsWhereNeighboursLieTogether) {
  struct Case {
    Shape x;
    std::vector<int64_t> order;
    int64_t axis;
    DataType type;
    std::string side;
    bool is_view;
  };
  const DataType u8 = ScalarType::kU8, i8 = ScalarType::kI8;
  const std::vector<Case> cases = {{{3, 8}, {0, 1}, 1, u8, "left", true},
                                   {{3, 8}, {0, 1}, -1, i8, "right", true},
                                   {{3, 8}, {0, 1}, 1, i8, "left", false},  // 128 is added
                                   {{3, 6}, {0, 1}, 1, u8, "left", false},  // no whole words
                                   {{4, 8}, {0, 1}, 0, u8, "left", false},  // neighbours are 8 bytes apart
                                   {{1, 4, 2, 3}, {0, 2, 3, 1}, 1, u8, "left", true},
                                   {{1, 4, 1, 1}, {0, 1, 2, 3}, 1, u8, "left", true},
                                   {{1, 4, 2, 3}, {0, 1, 2, 3}, 1, u8, "left", false}};
  for (const Case& c : cases) {
    Shape words = c.x;
    words[c.axis < 0 ? 1 : static_cast<size_t>(c.axis)] /= 4;
    graph::Graph g;
    g.values = {{"x", {c.type, c.x}, layout_of_order(c.order), nullptr},
                {"y", {DataType::i32(), words}, layout_of_order(c.order), nullptr}};
    g.nodes = {{.op = "pack_words",
                .name = "p",
                .attrs = {{"axis", c.axis}, {"words", std::string("quads")}, {"side", c.side}},
                .inputs = {0},
                .outputs = {1}}};
    EXPECT_EQ(is_view(g, g.nodes[0]), c.is_view) << to_string(c.x) << " " << c.side << " axis " << c.axis;
  }
}

}  // namespace
}  // namespace tw::transform
