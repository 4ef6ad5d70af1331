// Strided windows over few channels: the graph computes the same over more of them.
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
  Ints dilations = {1, 1};
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
                  .attrs = {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"group", c.group}},
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
  return after;
}

Shape conv_input(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (node.op == "conv") return g.value(node.inputs[0]).type.shape;
  }
  return {};
}

TEST(FoldStrides, WindowsOfMoreChannels) {
  EXPECT_EQ(conv_input(folded(graph_of({{2, 3, 12, 14}, {5, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}}))), (Shape{2, 12, 6, 7}));
  EXPECT_EQ(conv_input(folded(graph_of({{1, 3, 8, 12}, {4, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}}))), (Shape{1, 12, 4, 6}));
  EXPECT_EQ(conv_input(folded(graph_of({{1, 3, 8, 12}, {4, 3, 3, 2}, {2, 2}, {0, 0, 1, 1}}))), (Shape{1, 12, 4, 6}));
  EXPECT_EQ(conv_input(folded(graph_of({{1, 2, 9, 15}, {4, 2, 4, 5}, {3, 3}, {2, 1, 1, 2}}))), (Shape{1, 18, 3, 5}));
  EXPECT_EQ(conv_input(folded(graph_of({{2, 3, 8, 16}, {6, 3, 4, 4}, {4, 4}, {0, 0, 0, 0}}))), (Shape{2, 48, 2, 4}))
      << "patches";
}

TEST(FoldStrides, OthersStay) {
  const auto stays = [](const Conv& c, DataType type = DataType::f16()) {
    return conv_input(folded(graph_of(c, type))) == c.x;
  };
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 3, 3}, {2, 1}, {1, 1, 1, 1}})) << "other strides";
  EXPECT_TRUE(stays({{2, 8, 12, 14}, {5, 8, 3, 3}, {2, 2}, {1, 1, 1, 1}})) << "channels fill an access";
  EXPECT_TRUE(stays({{2, 3, 12, 13}, {5, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}})) << "a width that the stride does not divide";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 1, 1}, {2, 2}, {0, 0, 0, 0}})) << "pixels that no window reads";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 2}})) << "windows with gaps";
  EXPECT_TRUE(stays({{2, 4, 12, 14}, {4, 2, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 2})) << "groups";
  EXPECT_TRUE(stays({{2, 3, 12, 14}, {5, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}}, DataType::f32())) << "f32";
}

}  // namespace
}  // namespace tw::transform
