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

}  // namespace
}  // namespace tw::transform
