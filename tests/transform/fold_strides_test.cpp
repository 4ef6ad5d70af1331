// Strided windows over few channels: the graph computes the same over more of them, of NaN and infinities, too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/ref_tensor.h"
#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::RefTensor;
using graph::ValueId;
using Ints = std::vector<int64_t>;

struct Conv {
  Shape x, w;
  Ints strides, pads;
  Ints dilations = {};
  int64_t group = 1;
};

Graph graph_of(const Conv& c, DataType type = DataType::f16()) {
  Graph g;
  const ValueId x = g.add_input("x", {type, c.x});
  RefTensor w = RefTensor::zeros({type, c.w});
  for (size_t k = 0; k < w.floats.size(); ++k) w.floats[k] = static_cast<double>(k * 7 % 19) / 8 - 1;
  const ValueId weights = g.add_constant("w", w.type, share(w.to_bytes()));
  const Node node{.op = "conv",
                  .name = "conv",
                  .attrs = {{"strides", c.strides},
                            {"dilations", c.dilations.empty() ? Ints(c.strides.size(), 1) : c.dilations},
                            {"pads", c.pads},
                            {"group", c.group}},
                  .inputs = {x, weights},
                  .outputs = {},
                  .body = {}};
  g.outputs = graph::append_node(g, testing::context().ops, node);
  return g;
}

Graph folded(const Graph& before) {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.target.vector_bytes = 16;
  Graph after = find_pass("fold-strides").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, 1e-12);
  testing::expect_same_special_values(before, after, 1e-12);
  return after;
}

Shape conv_input(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (node.op == "conv") return g.value(node.inputs[0]).type.shape;
  }
  return {};
}

Shape conv_weights(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (node.op == "conv") return g.value(node.inputs[1]).type.shape;
  }
  return {};
}

struct Folded {
  Shape x, w;
};

void expect_folded(const Conv& c, const Folded& wanted) {
  const Graph after = folded(graph_of(c));
  EXPECT_EQ(conv_input(after), wanted.x);
  EXPECT_EQ(conv_weights(after), wanted.w);
}

// Strides that divide the window: as many products as before.
TEST(FoldStrides, PixelsOfAStride) {
  expect_folded({{2, 3, 8, 16}, {6, 3, 4, 4}, {4, 4}, {0, 0, 0, 0}}, {{2, 48, 2, 4}, {6, 48, 1, 1}});
  expect_folded({{1, 3, 9, 14}, {6, 3, 4, 4}, {4, 4}, {0, 0, 0, 0}}, {{1, 48, 2, 3}, {6, 48, 1, 1}});
  expect_folded({{1, 3, 12, 10}, {5, 3, 4, 4}, {2, 2}, {1, 1, 1, 1}}, {{1, 12, 7, 6}, {5, 12, 2, 2}});
  expect_folded({{1, 2, 9, 15}, {4, 2, 3, 6}, {3, 3}, {2, 1, 1, 2}}, {{1, 18, 4, 6}, {4, 18, 1, 2}});
  expect_folded({{1, 3, 12, 14}, {5, 3, 4, 3}, {2, 1}, {1, 1, 1, 1}}, {{1, 6, 7, 14}, {5, 6, 2, 3}});
  expect_folded({{2, 1, 40}, {5, 1, 10}, {5}, {3, 3}}, {{2, 5, 9}, {5, 5, 2}});
}

TEST(FoldStrides, OneAxisOfSeveral) {
  expect_folded({{1, 3, 8, 12}, {4, 3, 3, 2}, {2, 2}, {0, 0, 1, 1}}, {{1, 6, 8, 6}, {4, 6, 3, 1}});
  expect_folded({{1, 2, 10, 15}, {4, 2, 4, 5}, {2, 3}, {2, 1, 1, 2}}, {{1, 4, 6, 15}, {4, 4, 2, 5}});
  expect_folded({{1, 3, 4, 9, 10}, {5, 3, 3, 3, 4}, {1, 2, 2}, {1, 1, 1, 1, 1, 1}}, {{1, 6, 4, 9, 6}, {5, 6, 3, 3, 2}});
}

TEST(FoldStrides, OthersStay) {
  const auto stays = [](const Conv& c, DataType type = DataType::f16()) {
    return conv_input(folded(graph_of(c, type))) == c.x;
  };
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 3, 3}, {2, 1}, {1, 1, 1, 1}})) << "a stride along the height";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}})) << "windows that overlap by odd numbers";
  EXPECT_TRUE(stays({{1, 3, 12, 14}, {5, 3, 4, 4}, {2, 2}, {1, 1, 1, 1}, {2, 2}})) << "dilated windows";
  EXPECT_TRUE(stays({{2, 8, 12, 14}, {5, 8, 3, 3}, {2, 2}, {1, 1, 1, 1}})) << "channels fill an access";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 1, 1}, {2, 2}, {0, 0, 0, 0}})) << "windows of one pixel";
  EXPECT_TRUE(stays({{2, 4, 12, 14}, {4, 2, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 2})) << "groups";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}}, DataType::f32())) << "f32";
}

}  // namespace
}  // namespace tw::transform
