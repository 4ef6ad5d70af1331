// Channels filled up to whole accesses: the graph computes the same, and where it does not pay nothing changes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "expr/scalar.h"
#include "graph/ref_tensor.h"
#include "tests/transform/graph_tools.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::RefTensor;
using graph::ValueId;
using Ints = std::vector<int64_t>;
using testing::count_nodes;

constexpr double kReassociated = 1e-12;

TransformContext gpu() {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.target.vector_bytes = 16;
  context.target.compute_units = 4;
  return context;
}

ValueId add_weights(Graph& g, const std::string& name, const Shape& shape, DataType type = DataType::f16()) {
  RefTensor t = RefTensor::zeros({type, shape});
  for (size_t k = 0; k < t.floats.size(); ++k) t.floats[k] = static_cast<double>(k * 7 % 19) / 8 - 1;
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

ValueId append(Graph& g, const std::string& op, std::vector<ValueId> inputs, graph::Attrs attrs = {}) {
  const Node node{
      .op = op, .name = op, .attrs = std::move(attrs), .inputs = std::move(inputs), .outputs = {}, .body = {}};
  return graph::append_node(g, testing::context().ops, node)[0];
}

graph::Attrs conv_attrs(int64_t group = 1) {
  return {{"strides", Ints{1, 1}}, {"dilations", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"group", group}};
}

Graph padded(const Graph& before, const TransformContext& context = gpu()) {
  Graph after = find_pass("pad-channels").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, kReassociated);
  return after;
}

// Channels of the inputs of all convolutions, in order.
Ints channels_of(const Graph& g) {
  Ints channels;
  for (const Node& node : g.nodes) {
    if (node.op == "conv") channels.push_back(g.value(node.inputs[0]).type.shape[1]);
  }
  return channels;
}

// A 3 x 3 convolution of an input that a cast writes anyway.
Graph one_convolution(int64_t channels, int64_t group = 1, DataType type = DataType::f16()) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f32(), {2, channels, 9, 11}});
  const ValueId in = append(g, "cast", {x}, {{"to", to_string(type)}});
  const ValueId w = add_weights(g, "w", {6 * group, channels / group, 3, 3}, type);
  g.outputs = {append(g, "conv", {in, w}, conv_attrs(group))};
  return g;
}

// x w, with both computed: from one value, where `same`.
Graph computed_product(int64_t rows, int64_t steps, bool same = false) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f32(), {rows, steps}});
  const ValueId w = same ? x : g.add_input("w", {DataType::f32(), {steps, 24}});
  const auto half = [&](ValueId v) { return append(g, "cast", {v}, {{"to", std::string("f16")}}); };
  const ValueId left = half(x);
  g.outputs = {append(g, "matmul", {left, same ? left : half(w)})};
  return g;
}

TEST(PadChannels, OfWeightsThatAreComputedToo) {
  for (const auto& [before, pads] : {std::pair(computed_product(1024, 46), 2), {computed_product(258, 258, true), 2}}) {
    TransformContext context = gpu();
    context.variant = "always";
    const Graph after = padded(before, context);
    testing::expect_same_special_values(before, after, kReassociated);
    EXPECT_EQ(count_nodes(after, "pad"), pads);
    for (const Node& node : after.nodes) {
      if (node.op != "matmul") continue;
      const int64_t steps = after.value(node.inputs[0]).type.shape[1];
      EXPECT_EQ(steps % 8, 0);
      EXPECT_EQ(after.value(node.inputs[1]).type.shape[0], steps);
    }
  }
  EXPECT_EQ(count_nodes(padded(computed_product(8, 46)), "pad"), 0) << "few rows do not pay for the weights' copy";
  EXPECT_EQ(count_nodes(padded(computed_product(4096, 48)), "pad"), 0);
}

TEST(PadChannels, SayWhichGroupsMakeRoom) {
  const auto group_of = [](const Graph& body) {
    Node group;
    group.op = "group";
    group.body = std::make_shared<Graph>(body);
    return group;
  };
  const Graph whole = padded(one_convolution(46));
  EXPECT_FALSE(makes_room(group_of(whole))) << "it convolves, too";
  Graph room = whole;
  std::erase_if(room.nodes, [](const Node& n) { return n.op == "conv"; });
  EXPECT_TRUE(makes_room(group_of(room)));
  std::erase_if(room.nodes, [](const Node& n) { return n.op == "pad"; });
  EXPECT_FALSE(makes_room(group_of(room)));
}

TEST(PadChannels, ToWholeAccessesOrHalfOfOne) {
  for (const auto& [channels, wanted] : {std::pair<int64_t, int64_t>{1, 4}, {3, 4}, {5, 8}, {17, 24}, {46, 48}}) {
    SCOPED_TRACE(channels);
    const Graph before = one_convolution(channels), after = padded(before);
    testing::expect_same_special_values(before, after, kReassociated);
    EXPECT_EQ(channels_of(after), Ints{wanted});
    EXPECT_EQ(count_nodes(after, "pad"), 1);
  }
  // Two channels are one access, as four would be.
  for (const int64_t channels : {2, 4, 8, 64})
    EXPECT_EQ(channels_of(padded(one_convolution(channels))), Ints{channels});
}

TEST(PadChannels, OnlyWhereOperandsAreGathered) {
  EXPECT_EQ(channels_of(padded(one_convolution(3), testing::context())), Ints{3});
  EXPECT_EQ(channels_of(padded(one_convolution(6, 2))), Ints{6});
  EXPECT_EQ(channels_of(padded(one_convolution(3, 1, DataType::f32()))), Ints{3});
}

// A kernel of its own takes more time than so small a convolution.
TEST(PadChannels, NotWhereTheCopyCostsMore) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f16(), {1, 46, 4, 4}});
  g.outputs = {append(g, "conv", {x, add_weights(g, "w", {8, 46, 3, 3})}, conv_attrs())};
  EXPECT_EQ(channels_of(padded(g)), Ints{46});
}

// Filters more instead of a copy; what follows the convolution need not keep zeros, or may even fail on them.
TEST(PadChannels, TheContractionBeforeComputesThem) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f16(), {2, 8, 9, 11}});
  const ValueId first =
      append(g, "conv", {x, add_weights(g, "w", {17, 8, 3, 3}), add_weights(g, "b", {17})}, conv_attrs());
  const ValueId scaled = append(g, "div", {append(g, "exp", {first}), add_weights(g, "s", {17, 1, 1})});
  g.outputs = {append(g, "conv", {scaled, add_weights(g, "w2", {8, 17, 3, 3})}, conv_attrs())};
  const Graph after = padded(g);
  testing::expect_same_special_values(g, after, kReassociated);
  EXPECT_EQ(channels_of(after), (Ints{8, 24}));
  EXPECT_EQ(count_nodes(after, "pad"), 0);
}

ValueId add_positive(Graph& g, const std::string& name, const Shape& shape, double least) {
  RefTensor t = RefTensor::zeros({DataType::f16(), shape});
  for (size_t k = 0; k < t.floats.size(); ++k) t.floats[k] = least + static_cast<double>(k * 7 % 19 + 1) / 8;
  t.floats.back() = least == 0 ? 0x1p-24 : t.floats.back();
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

// Sums of infinities of one sign are infinite: no zero is multiplied by them.
TEST(PadChannels, InfinitiesStayInfinite) {
  for (const double least : {0.0, 1.0}) {
    Graph g;
    g.name = "g";
    const ValueId x = g.add_input("x", {DataType::f16(), {2, 8, 9, 11}});
    const ValueId first = append(g, "conv", {x, add_positive(g, "w", {17, 8, 3, 3}, 1)}, conv_attrs());
    const ValueId second = append(g, "relu", {first});
    g.outputs = {append(g, "conv", {second, add_positive(g, "w2", {8, 17, 3, 3}, least)}, conv_attrs())};
    const Graph after = padded(g);
    testing::expect_same_special_values(g, after, kReassociated);
    EXPECT_EQ(channels_of(after), (Ints{8, 24}));
    EXPECT_EQ(count_nodes(after, "pad"), 0);
  }
}

// Weights that no copies can share, of all channels: zeros are padded to them.
TEST(PadChannels, SubnormalWeightsAreNotShared) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f16(), {8, 8, 40, 40}});
  const ValueId first = append(g, "conv", {x, add_weights(g, "w", {17, 8, 3, 3})}, conv_attrs());
  RefTensor tiny = RefTensor::zeros({DataType::f16(), {8, 17, 3, 3}});
  std::ranges::fill(tiny.floats, 0x1p-24);
  g.outputs = {append(g, "conv", {first, g.add_constant("w2", tiny.type, share(tiny.to_bytes()))}, conv_attrs())};
  const Graph after = padded(g);
  EXPECT_EQ(channels_of(after), (Ints{8, 24}));
  EXPECT_EQ(count_nodes(after, "pad"), 1);
}

// Other readers want the channels as they are: a copy, which two convolutions share.
TEST(PadChannels, ReadersShareACopy) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f16(), {8, 46, 40, 40}});
  for (const char* name : {"a", "b"})
    g.outputs.push_back(append(g, "conv", {x, add_weights(g, name, {16, 46, 3, 3})}, conv_attrs()));
  g.outputs.push_back(append(g, "relu", {x}));
  const Graph after = padded(g);
  EXPECT_EQ(channels_of(after), (Ints{48, 48}));
  EXPECT_EQ(count_nodes(after, "pad"), 1);
}

TEST(PadChannels, RowsOfMatrixProducts) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {DataType::f16(), {3, 40, 24}});
  const ValueId hidden = append(g, "matmul", {x, add_weights(g, "w", {24, 37})});
  const ValueId biased = append(g, "relu", {append(g, "add", {hidden, add_weights(g, "b", {37})})});
  g.outputs = {append(g, "matmul", {biased, add_weights(g, "w2", {37, 10})})};
  const Graph after = padded(g);
  EXPECT_EQ(after.value(after.nodes.back().inputs[0]).type.shape, (Shape{3, 40, 40}));
  EXPECT_EQ(count_nodes(after, "pad"), 0);
}

// Elements of odd lines come one by one, and are waited for: a copy pays there that pairs of elements are not worth.
TEST(PadChannels, OddLinesAreWorthACopy) {
  for (const int64_t steps : {129, 130}) {
    Graph g;
    g.name = "g";
    const ValueId x = g.add_input("x", {DataType::f16(), {4097, steps}});
    g.outputs = {append(g, "matmul", {x, add_weights(g, "w", {steps, 513})})};
    EXPECT_EQ(count_nodes(padded(g), "pad"), steps == 129 ? 1 : 0) << steps;
  }
}

// As of a vocabulary in training: logits, their reduction, and what it hands back to the weights and to the rows
// before.
TEST(PadChannels, LinesOfAVocabularyAreStoredOnce) {
  constexpr int64_t kRows = 96, kColumns = 16, kWords = 203;
  Graph g;
  const ValueId h = g.add_input("h", {DataType::f16(), {2, kRows / 2, kColumns}});
  const ValueId w = g.add_input("w", {DataType::f32(), {kColumns, kWords}});
  const graph::Attrs to_half = {{"to", std::string("f16")}}, turned = {{"perm", Ints{1, 0}}};
  const ValueId logits = append(g, "matmul", {h, append(g, "cast", {w}, to_half)});
  const ValueId lines = append(g, "reshape", {logits}, {{"shape", Ints{kRows, kWords}}});
  const ValueId wide = append(g, "cast", {lines}, {{"to", std::string("f32")}});
  const ValueId p = append(g, "softmax", {wide}, {{"axis", int64_t{1}}});
  const ValueId d = append(g, "cast", {append(g, "mul", {p, p})}, to_half);
  const ValueId dh = append(g, "matmul",
                            {append(g, "reshape", {d}, {{"shape", Ints{2, kRows / 2, kWords}}}),
                             append(g, "cast", {append(g, "transpose", {w}, turned)}, to_half)});
  const ValueId rows = append(g, "reshape", {h}, {{"shape", Ints{kRows, kColumns}}});
  const ValueId dw = append(g, "matmul", {append(g, "transpose", {rows}, turned), d});
  g.outputs = {dh, dw};
  const Graph after = padded(g);
  EXPECT_EQ(count_nodes(after, "pad"), 2) << "the weights, and the gradient";
  for (const Node& node : after.nodes) {
    if (node.op != "matmul") continue;
    for (const ValueId id : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
      const Node* from = after.producer(id) >= 0 ? &after.nodes[static_cast<size_t>(after.producer(id))] : nullptr;
      const bool is_part = from != nullptr && from->op == "slice";  // of lines that are padded
      EXPECT_TRUE(is_part || after.is_output(id) || after.value(id).type.shape.back() % 8 == 0) << after.value(id).name;
    }
  }
  EXPECT_EQ(count_nodes(after, "cast"), 3) << "the weights once";
}

// Weights of which the lines are words: their gradient has the rows that the other product's operand is filled up with,
// and leaves these away behind its conversion.
TEST(PadChannels, RowsThatAreFilledUpAreLeftAwayBehind) {
  constexpr int64_t kRows = 96, kColumns = 16, kWords = 203;
  Graph g;
  const ValueId h = g.add_input("h", {DataType::f16(), {kRows, kColumns}});
  const ValueId s = g.add_input("s", {DataType::f16(), {kRows, kWords}});
  const ValueId w = g.add_input("w", {DataType::f32(), {kWords, kColumns}});
  const ValueId d = append(g, "mul", {s, s}), narrow = append(g, "cast", {w}, {{"to", std::string("f16")}});
  const ValueId turned = append(g, "transpose", {d}, {{"perm", Ints{1, 0}}});
  const ValueId dw = append(g, "cast", {append(g, "matmul", {turned, h})}, {{"to", std::string("f32")}});
  g.outputs = {append(g, "matmul", {d, narrow}), append(g, "mul", {dw, dw})};
  const Graph after = padded(g);
  for (const Node& node : after.nodes) {
    if (node.op != "matmul") continue;
    EXPECT_EQ(after.value(node.inputs[0]).type.elements() % 208, 0) << "no part of what is filled up";
  }
  EXPECT_EQ(count_nodes(after, "cast"), 2);
  EXPECT_EQ(after.value(after.outputs[1]).type.shape, (Shape{kWords, kColumns}));
}

// The gradient of a first layer's weights, as a convolution over the images: its rows are channels of images, which are
// filled up where a copy of the images is worth it, or where the layer itself reads them so.
TEST(PadChannels, ChannelsThatAreRowsAreFilledUp) {
  for (const int64_t channels : {3, 4, 8}) {
    Graph g;
    const ValueId x = g.add_input("x", {DataType::f16(), {2, channels, 40, 40}});
    const ValueId dy = g.add_input("dy", {DataType::f16(), {2, 16, 40, 40}});
    const graph::Attrs over_images = {{"perm", Ints{1, 0, 2, 3}}};
    const ValueId images = append(g, "transpose", {x}, over_images),
                  filters = append(g, "transpose", {dy}, over_images);
    g.outputs = {append(g, "conv", {images, filters}, conv_attrs())};
    const Graph after = padded(g);
    EXPECT_EQ(count_nodes(after, "pad"), channels == 3 ? 1 : 0) << channels;
    EXPECT_EQ(after.value(after.outputs[0]).type.shape[0], channels);
  }
}

}  // namespace
}  // namespace tw::transform
