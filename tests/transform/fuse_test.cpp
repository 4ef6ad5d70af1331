#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::expect_same_function;
using testing::parse;
using testing::run_pass;

// Operators of the groups (and single nodes) of a graph, in order: "matmul+add add+relu".
std::string groups_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += text.empty() ? "" : " ";
    if (!node.is_group()) {
      text += node.op;
      continue;
    }
    std::string ops;
    for (const graph::Node& inner : node.body->nodes) ops += (ops.empty() ? "" : "+") + inner.op;
    text += ops;
  }
  return text;
}

std::string fused(const std::string& text, DeviceKind kind = DeviceKind::kCpu) {
  const Graph before = parse(text);
  TransformContext context = testing::context();
  context.target.kind = kind;
  const Graph after = find_pass("fuse").run(before, context);
  for (const graph::Node& node : after.nodes) EXPECT_EQ(node.outputs.size(), 1u) << node.name;
  expect_same_function(before, after, 0);
  expect_same_function(before, run_pass(after, "partition"), 0);
  return groups_of(after);
}

TEST(Fuse, ContractionTakesItsEpilogue) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input r : f32[2, 5]
  input w : f32[3, 5]
  const b : f32[5] = [1.0, 2.0, 3.0, 4.0, 5.0]
  m : f32[2, 5] = matmul(x, w) as m
  a : f32[2, 5] = add(m, b) as a
  s : f32[2, 5] = add(r, a) as s
  c : f32[2, 5] = clip(s) {min = 0.0, max = 6.0} as c
  y : f16[2, 5] = cast(c) {to = "f16"} as y
  output y
})"),
            "matmul+add+add+clip+cast");
}

// Halves of heads that change places, as rotary embeddings turn them.
TEST(Fuse, PartsOfAConcatAreReadInPlaceOnGpus) {
  const std::string rotary = R"(graph g {
  input x : f32[5, 2, 4]
  input c : f32[5, 1, 4]
  input s : f32[5, 1, 4]
  a : f32[5, 2, 2] = slice(x) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [5, 2, 2]}
  b : f32[5, 2, 2] = slice(x) {starts = [0, 0, 2], steps = [1, 1, 1], extents = [5, 2, 2]}
  n : f32[5, 2, 2] = neg(b)
  j : f32[5, 2, 4] = concat(n, a) {axis = 2}
  p : f32[5, 2, 4] = mul(x, c)
  q : f32[5, 2, 4] = mul(j, s)
  y : f32[5, 2, 4] = add(p, q)
  output y
})";
  EXPECT_EQ(fused(rotary, DeviceKind::kCuda), "slice+slice+neg+concat+mul+mul+add");
  EXPECT_EQ(fused(rotary), "slice slice+neg concat mul+mul+add");
  std::string twice = rotary;  // a stage of its own would store it
  EXPECT_EQ(fused(twice.replace(twice.find("mul(x, c)"), 9, "mul(j, c)"), DeviceKind::kCuda),
            "slice+slice+neg+concat mul+mul+add");
}

// Keys of grouped queries: what expands batches is read through, with the reshape that joins them.
TEST(Fuse, ReshapesOfMovesAreReadThroughOnGpus) {
  const std::string scores = R"(graph g {
  input q : f32[1, 4, 5, 3]
  input k : f32[1, 2, 1, 3, 5]
  e : f32[1, 2, 2, 3, 5] = expand(k) {shape = [1, 2, 2, 3, 5]}
  r : f32[1, 4, 3, 5] = reshape(e) {shape = [1, 4, 3, 5]}
  y : f32[1, 4, 5, 5] = matmul(q, r)
  output y
})";
  EXPECT_EQ(fused(scores, DeviceKind::kCuda), "expand+reshape+matmul");
  EXPECT_EQ(fused(scores), "expand reshape matmul");
}

// Keys that go into a cache are parts of a product. What says where to, and the cache, are read as they are.
TEST(Fuse, RowsOfAnUpdateAreReadWhereTheyLie) {
  const std::string keys = R"(graph g {
  input x : f32[1, 2, 9]
  input past : f32[1, 5, 2, 3]
  input places : i64[2, 1]
  s : f32[1, 2, 3] = slice(x) {starts = [0, 0, 3], steps = [1, 1, 1], extents = [1, 2, 3]}
  r : f32[1, 1, 2, 3] = reshape(s) {shape = [1, 1, 2, 3]}
  p : i64[1, 1] = slice(places) {starts = [1, 0], steps = [1, 1], extents = [1, 1]}
  y : f32[1, 5, 2, 3] = update_slice(past, r, p) {axis = 1}
  output y
})";
  EXPECT_EQ(fused(keys, DeviceKind::kCuda), "slice slice+reshape+update_slice");
  EXPECT_EQ(fused(keys), "slice reshape slice update_slice");
  const std::string cache = R"(graph g {
  input x : f32[2, 1, 3]
  input past : f32[5, 2, 3]
  input p : i64[1]
  t : f32[2, 5, 3] = transpose(past) {perm = [1, 0, 2]}
  y : f32[2, 5, 3] = update_slice(t, x, p) {axis = 1}
  output y
})";
  EXPECT_EQ(fused(cache, DeviceKind::kCuda), "transpose update_slice");
}

// Windows that come together as an image, before its norm.
TEST(Fuse, RowsAreReadWhereTheyAreOnGpus) {
  const std::string norm = R"(graph g {
  input x : f32[2, 2, 2, 2, 3]
  const s : f32[3] = [1.0, 2.0, 3.0]
  t : f32[2, 2, 2, 2, 3] = transpose(x) {perm = [0, 2, 1, 3, 4]}
  r : f32[4, 4, 3] = reshape(t) {shape = [4, 4, 3]}
  y : f32[4, 4, 3] = layer_norm(r, s) {axis = 2, epsilon = 0.5}
  output y
})";
  EXPECT_EQ(fused(norm, DeviceKind::kCuda), "transpose+reshape+layer_norm");
  EXPECT_EQ(fused(norm), "transpose reshape layer_norm");
}

TEST(Fuse, ReshapesOfWhatIsStoredStayViews) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[4, 3]
  input w : f32[3, 5]
  a : f32[4, 3] = relu(x)
  r : f32[1, 4, 3] = reshape(a) {shape = [1, 4, 3]}
  y : f32[1, 4, 5] = matmul(r, w)
  output y
})",
                  DeviceKind::kCuda),
            "relu reshape matmul");
}

TEST(Fuse, IntermediateThatIsReadTwiceStays) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input w : f32[3, 5]
  m : f32[2, 5] = matmul(x, w) as m
  e : f32[2, 5] = exp(m) as e
  y : f32[2, 5] = relu(e) as y
  z : f32[2, 5] = matmul(x, w) as z
  q : f32[2, 5] = relu(z) as q
  output y, e, z, q
})"),
            "matmul+exp relu matmul relu");
}

TEST(Fuse, BranchesOfAnEpilogueMeetAgain) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input w : f32[3, 5]
  input b : f32[5]
  const c : f32[] = [0.044715]
  m : f32[2, 5] = matmul(x, w) as m
  a : f32[2, 5] = add(m, b) as a
  q : f32[2, 5] = mul(a, a) as q
  p : f32[2, 5] = mul(q, a) as p
  k : f32[2, 5] = mul(p, c) as k
  s : f32[2, 5] = add(a, k) as s
  t : f32[2, 5] = tanh(s) as t
  u : f32[2, 5] = mul(a, t) as u
  y : f32[2, 5] = relu(u) as y
  output y
})"),
            "matmul+add+mul+mul+mul+add+tanh+mul+relu");
  // One branch leaves: the group ends before they part.
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input w : f32[3, 5]
  m : f32[2, 5] = matmul(x, w) as m
  a : f32[2, 5] = relu(m) as a
  t : f32[2, 5] = tanh(a) as t
  u : f32[2, 5] = mul(a, t) as u
  output u, t
})"),
            "matmul+relu tanh mul");
}

// The shape of the contraction ends with a broadcast to more rows.
TEST(Fuse, EpilogueKeepsTheShape) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[1, 3]
  input w : f32[3, 5]
  input r : f32[4, 5]
  m : f32[1, 5] = matmul(x, w) as m
  e : f32[1, 5] = relu(m) as e
  y : f32[4, 5] = add(e, r) as y
  output y
})"),
            "matmul+relu add");
}

// Two contractions meet in one addition: the later one takes it, the other is complete before.
TEST(Fuse, OneContractionPerGroup) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input w : f32[3, 5]
  input v : f32[3, 5]
  m : f32[2, 5] = matmul(x, w) as m
  a : f32[2, 5] = relu(m) as a
  n : f32[2, 5] = matmul(x, v) as n
  s : f32[2, 5] = add(a, n) as s
  y : f32[2, 5] = relu(s) as y
  output y
})"),
            "matmul+relu matmul+add+relu");
}

TEST(Fuse, SideBranchOfAnEpilogue) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  input r : f32[5, 2]
  input w : f32[3, 5]
  t : f32[2, 5] = transpose(r) {perm = [1, 0]} as t
  u : f32[2, 5] = tanh(t) as u
  m : f32[2, 5] = matmul(x, w) as m
  y : f32[2, 5] = mul(m, u) as y
  output y
})"),
            "transpose+tanh+matmul+mul");
}

TEST(Fuse, IndexMapsOfOperands) {
  EXPECT_EQ(fused(R"(graph g {
  input a : f32[2, 3, 7]
  input b : f32[2, 5, 7]
  t : f32[2, 7, 5] = transpose(b) {perm = [0, 2, 1]} as t
  y : f32[2, 3, 5] = matmul(a, t) as y
  output y
})"),
            "transpose+matmul");
}

TEST(Fuse, ElementwiseTree) {
  EXPECT_EQ(fused(R"(graph g {
  input a : f32[2, 3]
  input b : f32[2, 3]
  input s : f32[3]
  u : f32[2, 3] = exp(a) as u
  v : f32[2, 3] = neg(b) as v
  w : f32[2, 3] = add(u, v) as w
  p : f32[2, 3] = mul(w, w) as p
  y : f32[2, 3] = mul(p, s) as y
  output y
})"),
            "exp+neg+add+mul+mul");
}

// What is computed once must not be computed for every element of a broadcast.
TEST(Fuse, BroadcastOperandIsComputedBefore) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3, 4]
  input s : f32[2, 3, 1]
  g : f32[2, 3, 1] = sigmoid(s) as g
  y : f32[2, 3, 4] = mul(x, g) as y
  output y
})"),
            "sigmoid mul");
}

TEST(Fuse, DecomposedSoftmaxIsOneGroup) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3, 7]
  m : f32[2, 3, 1] = reduce_max(x) {axes = [2], keepdims = 1} as m
  d : f32[2, 3, 7] = sub(x, m) as d
  e : f32[2, 3, 7] = exp(d) as e
  s : f32[2, 3, 1] = reduce_sum(e) {axes = [2], keepdims = 1} as s
  y : f32[2, 3, 7] = div(e, s) as y
  output y
})"),
            "reduce_max+sub+exp+reduce_sum+div");
}

TEST(Fuse, NormalizationWithItsInputsAndEpilogue) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 7]
  input r : f32[2, 7]
  const g : f32[7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
  a : f32[2, 7] = add(x, r) as a
  n : f32[2, 7] = layer_norm(a, g, g) {axis = 1, epsilon = 1e-05} as n
  y : f32[2, 7] = relu(n) as y
  output y
})"),
            "add+layer_norm+relu");
}

// A window reads its input several times: what feeds it is computed before, what follows it with it.
TEST(Fuse, PoolingTakesNoProducers) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[1, 2, 5, 5]
  a : f32[1, 2, 5, 5] = exp(x) as a
  p : f32[1, 2, 4, 4] = max_pool(a) {kernel_shape = [2, 2]} as p
  y : f32[1, 2, 4, 4] = neg(p) as y
  output y
})"),
            "exp max_pool+neg");
}

TEST(Fuse, MeanAndScaleOfRows) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 7]
  q : f32[2, 7] = mul(x, x) as q
  v : f32[2, 1] = reduce_mean(q) {axes = [1], keepdims = 1} as v
  s : f32[2, 1] = sqrt(v) as s
  y : f32[2, 7] = div(x, s) as y
  output y
})"),
            "mul+reduce_mean+sqrt+div");
}

// Threads of a GPU share rows of one length. (The checks of the indices of two tables were one thread's work: 25 ms.)
TEST(Fuse, ReductionsOfDifferentLengthsApartOnGpus) {
  const std::string both = R"(graph g {
  input x : f32[1, 7]
  input z : f32[5, 7]
  a : f32[1, 1] = reduce_max(x) {keepdims = 1} as a
  b : f32[1, 1] = reduce_max(z) {keepdims = 1} as b
  y : f32[1, 1] = max(a, b) as y
  output y
})";
  EXPECT_EQ(fused(both), "reduce_max+reduce_max+max");
  EXPECT_EQ(fused(both, DeviceKind::kCuda), "reduce_max reduce_max+max");
}

// A pad reads each element once: element-wise producers join it, a pad of copies (reflect) and its readers do not.
TEST(Fuse, PadTakesElementwiseProducers) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  a : f32[2, 3] = relu(x)
  p : f32[2, 5] = pad(a) {mode = "constant", pads = [0, 1, 0, 1]}
  y : f32[2, 5] = neg(p)
  output y
})"),
            "relu+pad neg");
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 3]
  a : f32[2, 3] = relu(x)
  p : f32[2, 5] = pad(a) {mode = "reflect", pads = [0, 1, 0, 1]}
  output p
})"),
            "relu pad");
}

TEST(Fuse, ReshapeStaysAlone) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[2, 6]
  a : f32[2, 6] = relu(x) as a
  r : f32[3, 4] = reshape(a) {shape = [3, 4]} as r
  y : f32[3, 4] = exp(r) as y
  output y
})"),
            "relu reshape exp");
}

TEST(Fuse, LimitsTheSizeOfAGroup) {
  std::string text = "graph g {\n  input x0 : f32[2]\n";
  for (int i = 1; i <= 60; ++i) text += fmt::format("  x{} : f32[2] = relu(x{}) as n{}\n", i, i - 1, i);
  const Graph after = run_pass(parse(text + "  output x60\n}"), "fuse");
  ASSERT_EQ(after.nodes.size(), 2u);
  for (const graph::Node& node : after.nodes) EXPECT_LE(node.body->nodes.size(), 32u);

  text = "graph g {\n";
  for (int i = 0; i <= 50; ++i) text += fmt::format("  input x{} : f32[2]\n", i);
  text += "  y0 : f32[2] = relu(x0) as m0\n";
  for (int i = 1; i <= 50; ++i) text += fmt::format("  y{} : f32[2] = add(y{}, x{}) as m{}\n", i, i - 1, i, i);
  for (const graph::Node& node : run_pass(parse(text + "  output y50\n}"), "fuse").nodes)
    EXPECT_LE(node.inputs.size(), 32u);
}

TEST(Fuse, OperandsOfAnotherLayoutAreReadByAnotherGroup) {
  const std::string text = R"g(graph g {
  input x : f32[1, 2, 3, 3]
  input r : f32[1, 2, 3, 3]
  input w : f32[2, 2, 1, 1]
  q : f32[1, 2, 3, 3] = exp(r) as q
  c : f32[1, 2, 3, 3] layout "reorder(0, 2, 3, 1)" = conv(x, w) as c
  a : f32[1, 2, 3, 3] layout "reorder(0, 2, 3, 1)" = add(c, q) as a
  y : f32[1, 2, 3, 3] = relu(a) as y
  output y, q
})g";
  EXPECT_EQ(fused(text), "exp conv add+relu");
}

TEST(Partition, EveryOutputIsComputed) {
  const Graph after = run_pass(parse(R"(graph g {
  input x : f32[2]
  const c : f32[2] = [1.0, 2.0]
  y : f32[2] = relu(x) as y
  output y, c, x
})"),
                               "partition");
  EXPECT_EQ(groups_of(after), "relu identity identity");
  EXPECT_EQ(after.value(after.outputs[1]).name, "c");
  EXPECT_EQ(after.value(after.inputs[0]).name, "x");
  for (const graph::ValueId out : after.outputs) EXPECT_GE(after.producer(out), 0);
}

}  // namespace
}  // namespace tw::transform
