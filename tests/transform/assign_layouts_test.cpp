#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::parse;
using testing::run_pass;

Graph laid_out(const std::string& text) {
  const Graph before = parse(text);
  const Graph after = run_pass(run_pass(before, "assign-layouts"), "write-transposed");
  testing::expect_same_function(before, after, 0);
  return after;
}

std::string layout_of(const Graph& graph, std::string_view value) {
  return to_string(graph.value(graph.find_value(value)).layout);
}

bool is_view_of(const Graph& graph, std::string_view value) {
  return is_view(graph, graph.nodes[graph.producer(graph.find_value(value))]);
}

constexpr const char* kLast4 = "reorder(0, 2, 3, 1)";

int copies(const Graph& graph) { return testing::count_nodes(graph, "transpose"); }

TEST(AssignLayouts, ConvolutionsAndWhatFollowsThem) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 3, 18, 18]
  input w : f32[16, 3, 3, 3]
  input v : f32[16, 16, 3, 3]
  input s : f32[16, 1, 1]
  c : f32[1, 16, 16, 16] = conv(x, w) as c
  m : f32[1, 16, 16, 16] = mul(c, s) as m
  r : f32[1, 16, 16, 16] = relu(m) as r
  p : f32[1, 16, 8, 8] = max_pool(r) {kernel_shape = [2, 2], strides = [2, 2]} as p
  d : f32[1, 16, 8, 8] = conv(p, v) {pads = [1, 1, 1, 1]} as d
  k : f32[1, 32, 8, 8] = concat(p, d) {axis = 1} as k
  a : f32[1, 32, 1, 1] = global_avg_pool(k) as a
  f : f32[1, 32] = reshape(a) {shape = [1, 32]} as f
  output f
})");
  for (const char* value : {"c", "m", "r", "p", "d", "k"}) EXPECT_EQ(layout_of(g, value), kLast4) << value;
  for (const char* value : {"x", "w", "s", "a", "f"}) EXPECT_EQ(layout_of(g, value), "") << value;
  EXPECT_TRUE(is_view_of(g, "f"));
  EXPECT_EQ(copies(g), 0);
}

TEST(AssignLayouts, OneAndThreeSpatialDims) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 16, 20]
  input w : f32[16, 16, 3]
  input t : f32[16, 16, 3]
  input u : f32[1, 16, 3, 4, 5]
  input v : f32[16, 16, 3, 3, 3]
  input z : f32[16, 16, 3, 3, 3]
  c : f32[1, 16, 18] = conv(x, w) as c
  p : f32[1, 16, 16] = conv(c, t) as p
  a : f32[1, 16, 1] = global_avg_pool(p) as a
  d : f32[1, 16, 3, 4, 5] = conv(u, v) {pads = [1, 1, 1, 1, 1, 1]} as d
  e : f32[1, 16, 3, 4, 5] = exp(d) as e
  h : f32[1, 16, 1, 2, 3] = conv(e, z) as h
  b : f32[1, 16, 1, 1, 1] = global_avg_pool(h) as b
  output a, b
})");
  EXPECT_EQ(layout_of(g, "c"), "reorder(0, 2, 1)");
  EXPECT_EQ(layout_of(g, "p"), "reorder(0, 2, 1)");
  EXPECT_EQ(layout_of(g, "e"), "reorder(0, 2, 3, 4, 1)");
}

// Windows of single channels take rows of the image as they are: two copies would cost more than they bring.
TEST(AssignLayouts, DepthwiseConvolutionAloneStaysInPlace) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 16, 16, 16]
  input w : f32[16, 1, 3, 3]
  y : f32[1, 16, 16, 16] = conv(x, w) {group = 16, pads = [1, 1, 1, 1]} as y
  output y
})");
  EXPECT_EQ(layout_of(g, "y"), "");
  EXPECT_EQ(copies(g), 0);
}

// Neighbours in a row of a transposed convolution belong to two phases: vectors run along channels.
TEST(AssignLayouts, PhasesHaveNoRows) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 16, 14, 14]
  input w : f32[64, 16, 2, 2, 1, 1]
  y : f32[1, 64, 28, 28] = conv_phases(x, w) {counts = [1, 1, 1, 1], extents = [14, 14], spacing = [1, 1], starts = [0, 0, 0, 0]} as y
  output y
})");
  EXPECT_EQ(layout_of(g, "y_channels_last"), kLast4);
}

// What leaves the model is row-major: with enough work per element a copy at the end costs less.
TEST(AssignLayouts, OutputsAreCopiedOnce) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 24, 9, 9]
  input w : f32[24, 24, 3, 3]
  input q : f32[24, 24, 1, 1]
  c : f32[1, 24, 9, 9] = conv(x, w) {pads = [1, 1, 1, 1]} as c
  d : f32[1, 24, 7, 7] = conv(c, w) as d
  f : f32[1, 1944] = reshape(c) {shape = [1, 1944]} as f
  output c, d, f
})");
  EXPECT_EQ(layout_of(g, "c"), "");
  EXPECT_EQ(layout_of(g, "c_channels_last"), kLast4);
  EXPECT_TRUE(is_view_of(g, "f"));
  EXPECT_EQ(copies(g), 2) << "c for the caller and f, d for the caller";
}

// One channel, or one point: both orders are the same bytes, and row-major keeps reshapes free.
TEST(AssignLayouts, SameBytesStayRowMajor) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 4, 8, 8]
  input w : f32[1, 4, 1, 1]
  input v : f32[8, 4, 8, 8]
  c : f32[1, 1, 8, 8] = conv(x, w) as c
  d : f32[1, 8, 1, 1] = conv(x, v) as d
  y : f32[1, 64] = reshape(c) {shape = [1, 64]} as y
  z : f32[8] = reshape(d) {shape = [8]} as z
  output y, z
})");
  EXPECT_EQ(layout_of(g, "c"), "");
  EXPECT_EQ(layout_of(g, "d"), "");
}

TEST(AssignLayouts, ElementwiseBeforeAConvolution) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 16, 12, 12]
  input t : f32[1, 3, 12, 12]
  input w : f32[16, 16, 3, 3]
  input v : f32[16, 3, 3, 3]
  a : f32[1, 16, 12, 12] = exp(x) as a
  b : f32[1, 16, 12, 12] = neg(a) as b
  c : f32[1, 16, 10, 10] = conv(b, w) as c
  d : f32[1, 3, 12, 12] = exp(t) as d
  e : f32[1, 16, 10, 10] = conv(d, v) as e
  f : f32[1, 16, 10, 10] = add(c, e) as f
  h : f32[1, 16, 1, 1] = global_max_pool(f) as h
  output h
})");
  for (const char* value : {"c", "e", "f"}) EXPECT_EQ(layout_of(g, value), kLast4);
  EXPECT_EQ(layout_of(g, "d"), "");  // read as scalars: its three channels need no order
  EXPECT_EQ(copies(g), 0);
}

TEST(AssignLayouts, OthersProduceRowMajor) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 16, 10, 10]
  input w : f32[16, 16, 3, 3]
  input q : f32[8, 5]
  c : f32[1, 16, 8, 8] = conv(x, w) as c
  e : f32[1, 16, 6, 6] = conv(c, w) as e
  s : f32[1, 16, 6, 6] = softmax(e) {axis = 1} as s
  m : f32[1, 16, 8, 5] = matmul(c, q) as m
  f : f32[1, 576] = reshape(e) {shape = [1, 576]} as f
  r : f32[1, 16, 6, 6] = relu(s) as r
  n : f32[1, 16, 8, 5] = relu(m) as n
  output f, r, n
})");
  for (const char* value : {"c", "e"}) EXPECT_EQ(layout_of(g, value), kLast4);
  for (const char* value : {"s", "m", "f"}) EXPECT_EQ(layout_of(g, value), "") << value;
  EXPECT_TRUE(is_view_of(g, "f"));  // of a row-major copy
  EXPECT_EQ(copies(g), 1);
}

// The way into and out of a block that works on the last dim: both transposes are views.
TEST(AssignLayouts, TransposesFromAndToChannelsLastAreViews) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[2, 3, 8, 8]
  input w : f32[8, 3, 3, 3]
  input v : f32[4, 8, 1, 1]
  input q : f32[8]
  c : f32[2, 8, 6, 6] = conv(x, w) as c
  t : f32[2, 6, 6, 8] = transpose(c) {perm = [0, 2, 3, 1]} as t
  n : f32[2, 6, 6, 8] = layer_norm(t, q) {axis = 3} as n
  u : f32[2, 8, 6, 6] = transpose(n) {perm = [0, 3, 1, 2]} as u
  d : f32[2, 4, 6, 6] = conv(u, v) as d
  y : f32[2, 4, 6, 6] = relu(d) as y
  output y
})");
  EXPECT_EQ(layout_of(g, "t"), "");
  EXPECT_EQ(layout_of(g, "u"), kLast4);
  EXPECT_TRUE(is_view_of(g, "t"));
  EXPECT_TRUE(is_view_of(g, "u"));
}

// Patches of a vision transformer: convolution, spatial dims merged, channels to the end.
TEST(AssignLayouts, FlattenedSpatialDimsAreAView) {
  const Graph g = laid_out(R"(graph g {
  input x : f32[1, 3, 8, 8]
  input w : f32[16, 3, 4, 4]
  c : f32[1, 16, 2, 2] = conv(x, w) {strides = [4, 4]} as c
  f : f32[1, 16, 4] = reshape(c) {shape = [1, 16, 4]} as f
  t : f32[1, 4, 16] = transpose(f) {perm = [0, 2, 1]} as t
  y : f32[1, 4, 16] = relu(t) as y
  output y
})");
  EXPECT_EQ(layout_of(g, "f"), "reorder(0, 2, 1)");
  EXPECT_EQ(layout_of(g, "t"), "");
  EXPECT_TRUE(is_view_of(g, "f"));
  EXPECT_TRUE(is_view_of(g, "t"));
}

// Heads of an attention come together: the product is written in the order in which the next one reads it.
TEST(WriteTransposed, Contractions) {
  const Graph g = laid_out(R"(graph g {
  input p : f32[1, 2, 5, 5]
  input v : f32[1, 2, 5, 4]
  const b : f32[4] = [1.0, 2.0, 3.0, 4.0]
  m : f32[1, 2, 5, 4] = matmul(p, v) as m
  a : f32[1, 2, 5, 4] = add(m, b) as a
  t : f32[1, 5, 2, 4] = transpose(a) {perm = [0, 2, 1, 3]} as t
  y : f32[5, 8] = reshape(t) {shape = [5, 8]} as y
  output y
})");
  EXPECT_EQ(layout_of(g, "m"), "reorder(0, 2, 1, 3)");
  EXPECT_EQ(layout_of(g, "a"), "reorder(0, 2, 1, 3)");
  EXPECT_EQ(layout_of(g, "t"), "");
  EXPECT_TRUE(is_view_of(g, "t"));
  EXPECT_TRUE(is_view_of(g, "y"));
  EXPECT_EQ(run_pass(g, "fuse").nodes.size(), 3u);  // matmul with its bias, two views
}

TEST(WriteTransposed, NotWhereRowsWouldBreak) {
  const Graph g = laid_out(R"(graph g {
  input p : f32[5, 5]
  input v : f32[5, 4]
  m : f32[5, 4] = matmul(p, v) as m
  t : f32[4, 5] = transpose(m) {perm = [1, 0]} as t
  y : f32[20] = reshape(t) {shape = [20]} as y
  output y
})");
  EXPECT_EQ(layout_of(g, "m"), "");
  EXPECT_FALSE(is_view_of(g, "t"));
}

TEST(StorageOrder, ComposesAndInverts) {
  const Layout twice = Layout().reorder({0, 2, 1}).reorder({2, 0, 1});
  EXPECT_EQ(*storage_order(twice, 3), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(twice.storage_shape({2, 3, 5}), (Shape{3, 2, 5}));
  EXPECT_FALSE(storage_order(Layout().split(1, {2, 3}), 3).has_value());
  EXPECT_TRUE(layout_of_order({0, 1, 2}).is_identity());
  EXPECT_TRUE(same_bytes({2, 1, 5}, channels_last(3), Layout()));
  EXPECT_TRUE(same_bytes({2, 3, 1}, channels_last(3), Layout()));
  EXPECT_FALSE(same_bytes({2, 3, 5}, channels_last(3), Layout()));
}

}  // namespace
}  // namespace tw::transform
