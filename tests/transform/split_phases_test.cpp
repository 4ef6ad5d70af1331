// Transposed convolutions as phases, against the f64 reference of the transposed convolution.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using Ints = std::vector<int64_t>;
using testing::context;
using testing::count_nodes;

constexpr double kReassociated = 1e-12;

struct Case {
  Shape in, kernel;  // spatial
  Ints strides, dilations, pads, output_padding;
  int64_t batch = 1, channels = 2, out_each = 3, group = 1;
  bool bias = false;
  bool computed = false;  // weights that come at run time
};

std::string to_string(const Case& c) {
  return fmt::format("in {} kernel {} strides {} dilations {} pads {} output_padding {} group {}", c.in, c.kernel,
                     c.strides, c.dilations, c.pads, c.output_padding, c.group);
}

graph::Bytes numbers(const Shape& shape) {
  std::vector<double> all;
  for (int64_t k = 0; k < num_elements(shape); ++k) all.push_back(static_cast<double>(k * 7 % 19 - 9) / 8);
  std::vector<std::byte> bytes(all.size() * sizeof(double));
  std::copy_n(reinterpret_cast<const std::byte*>(all.data()), bytes.size(), bytes.data());
  return share(std::move(bytes));
}

Graph graph_of(const Case& c) {
  Graph g;
  g.name = "g";
  Shape x{c.batch, c.channels}, w{c.channels, c.out_each};
  x.insert(x.end(), c.in.begin(), c.in.end());
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  const TensorType weights{DataType::f64(), w};
  std::vector<ValueId> inputs{g.add_input("x", {DataType::f64(), x})};
  inputs.push_back(c.computed ? g.add_input("w", weights) : g.add_constant("w", weights, numbers(w)));
  const Shape channels{c.out_each * c.group};
  if (c.bias) inputs.push_back(g.add_constant("bias", {DataType::f64(), channels}, numbers(channels)));
  const Node node{.op = "conv_transpose",
                  .name = "t",
                  .attrs = {{"strides", c.strides},
                            {"dilations", c.dilations},
                            {"pads", c.pads},
                            {"output_padding", c.output_padding},
                            {"group", c.group}},
                  .inputs = inputs,
                  .outputs = {},
                  .body = nullptr};
  g.outputs = graph::append_node(g, context().ops, node);
  return g;
}

// The graph after the pass; it has no transposed convolution and computes the same. So it does for weights that come
// at run time.
Graph checked(Case c) {
  SCOPED_TRACE(to_string(c));
  Graph after;
  for (const bool computed : {true, false}) {
    c.computed = computed;
    const Graph before = graph_of(c);
    after = testing::run_pass(before, "split-phases");
    EXPECT_EQ(count_nodes(after, "conv_transpose"), 0);
    testing::expect_same_function(before, after, kReassociated);
  }
  return after;
}

// One spatial axis, every combination of the lists.
std::vector<Case> axis_cases() {
  const Ints ins{1, 2, 5}, kernels{1, 2, 3, 4, 5}, strides{1, 2, 3, 4}, dilations{1, 2, 3}, extras{0, 1};
  const std::vector<Ints> pads{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {1, 3}};
  std::vector<Case> cases;
  size_t rest = 0;
  const auto next = [&](const auto& list) {
    const auto& chosen = list[rest % list.size()];
    rest /= list.size();
    return chosen;
  };
  for (size_t k = 0; rest == 0; ++k) {
    rest = k;
    Case c{{next(ins)}, {next(kernels)}, {next(strides)}, {next(dilations)}, next(pads), {next(extras)}};
    const int64_t spread = (c.kernel[0] - 1) * c.dilations[0] + 1;
    const int64_t out = (c.in[0] - 1) * c.strides[0] + c.output_padding[0] + spread - c.pads[0] - c.pads[1];
    if (rest == 0 && out > 0) cases.push_back(std::move(c));
  }
  return cases;
}

TEST(SplitPhases, EveryAxis) {
  const std::vector<Case> cases = axis_cases();
  EXPECT_GT(cases.size(), 1000U);
  for (const Case& c : cases) checked(c);
}

TEST(SplitPhases, TwoAndThreeAxesGroupsBatchAndBias) {
  for (const bool bias : {false, true}) {
    for (const int64_t group : {1, 2}) {
      checked({{3, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 2, 4, 3, group, bias});
      checked({{3, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, 4, 3, group, bias});
      checked({{4, 3}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 1, 2, 2, group, bias});
      checked({{4, 3}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {0, 0}, 1, 2, 2, group, bias});
      checked({{4, 5}, {5, 3}, {3, 1}, {1, 2}, {2, 0, 1, 3}, {1, 0}, 1, 2, 2, group, bias});
      checked({{3, 2}, {2, 5}, {1, 3}, {2, 2}, {0, 1, 1, 0}, {0, 2}, 1, 2, 2, group, bias});
      checked({{2, 3, 4}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {0, 1, 0}, 1, 2, 2, group, bias});
      checked({{2, 3, 2}, {4, 2, 3}, {2, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 0, 1}, {0, 0, 0}, 1, 2, 2, group, bias});
      checked({{3, 3, 3}, {1, 2, 3}, {3, 1, 2}, {1, 2, 2}, {0, 0, 0, 0, 1, 2}, {2, 0, 1}, 1, 2, 2, group, bias});
    }
  }
  checked({{3, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, 4, 1, 4, true});  // depthwise
  checked({{3, 3}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 1, 4, 2, 4, false});
}

TEST(SplitPhases, StrideOneIsAConvolution) {
  EXPECT_EQ(count_nodes(checked({{5, 4}, {3, 2}, {1, 1}, {1, 2}, {1, 0, 1, 1}, {0, 0}}), "conv"), 1);
  // Pads beyond the kernel cut x: a convolution has no pads for that.
  EXPECT_EQ(count_nodes(checked({{6}, {2}, {1}, {1}, {3, 0}, {0}}), "conv_phases"), 1);
}

// As many filters as phases, and no more filter positions than the longest phase has.
TEST(SplitPhases, FiltersOfPhases) {
  const auto weights = [](const Case& c) {
    const Graph g = checked(c);
    for (const Node& node : g.nodes) {
      if (node.op == "conv_phases") return g.value(node.inputs[1]).type.shape;
    }
    return Shape{};
  };
  EXPECT_EQ(weights({{7, 7}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}}), (Shape{3, 2, 2, 2, 2, 2}));
  EXPECT_EQ(weights({{7, 7}, {3, 2}, {2, 2}, {1, 1}, {1, 0, 1, 0}, {1, 0}}), (Shape{3, 2, 2, 2, 2, 1}));
  EXPECT_EQ(weights({{4}, {2}, {5}, {1}, {0, 0}, {3}}), (Shape{3, 2, 5, 1}));
  EXPECT_EQ(weights({{4}, {5}, {2}, {2}, {1, 1}, {0}}), (Shape{3, 2, 2, 5})) << "every filter position in one phase";
}

// What the stride does not divide is cut behind the element-wise operators, so that these stay with the sum.
TEST(SplitPhases, CutsBehindElementwiseOperators) {
  const Graph before = testing::parse(R"(graph g {
  input x : f64[1, 2, 3]
  const w : f64[2, 2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
  const scale : f64[2, 1] = [2.0, 3.0]
  const along : f64[5] = [1.0, 2.0, 3.0, 4.0, 5.0]
  c : f64[1, 2, 5] = conv_transpose(x, w) {strides = [2], pads = [1, 1]} as c
  r : f64[1, 2, 5] = relu(c) as r
  m : f64[1, 2, 5] = mul(r, scale) as m
  a : f64[1, 2, 5] = add(m, along) as a
  output a
})");
  const Graph after = testing::run_pass(before, "split-phases");
  testing::expect_same_function(before, after, kReassociated);
  std::string ops;
  for (const Node& node : after.nodes) ops += node.op + " ";
  EXPECT_EQ(ops, "conv_phases relu mul slice add ");
  EXPECT_EQ(after.value(after.nodes[0].outputs[0]).type.shape, (Shape{1, 2, 6}));
}

TEST(SplitPhases, ReadTwiceIsCutAtOnce) {
  const Graph before = testing::parse(R"(graph g {
  input x : f64[1, 1, 3]
  const w : f64[1, 1, 3] = [1.0, 2.0, 3.0]
  c : f64[1, 1, 7] = conv_transpose(x, w) {strides = [2]} as c
  r : f64[1, 1, 7] = relu(c) as r
  s : f64[1, 1, 7] = sigmoid(c) as s
  output r, s, c
})");
  const Graph after = testing::run_pass(before, "split-phases");
  testing::expect_same_function(before, after, kReassociated);
  EXPECT_EQ(count_nodes(after, "slice"), 1);
}

// Weights that come at run time are moved into the filters' order, by a copy of the weights alone.
TEST(SplitPhases, WeightsThatAreNoConstantAreMoved) {
  const Graph g = testing::run_pass(testing::parse(R"(graph g {
  input x : f64[1, 1, 3]
  input w : f64[1, 1, 3]
  y : f64[1, 1, 7] = conv_transpose(x, w) {strides = [2]} as y
  output y
})"),
                                    "split-phases");
  EXPECT_EQ(count_nodes(g, "conv_transpose"), 0);
  EXPECT_EQ(count_nodes(g, "conv_phases"), 1);
  for (const Node& node : g.nodes) {
    if (node.op == "gather") EXPECT_EQ(g.value(node.outputs[0]).type.elements(), 4);  // two phases of at most two
  }
}

}  // namespace
}  // namespace tw::transform
