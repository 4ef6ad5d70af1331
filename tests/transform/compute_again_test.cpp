// Wide values between products of few columns are computed by each product that reads them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "graph/ref_tensor.h"
#include "tests/transform/graph_tools.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

TransformContext of_gpu() {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.target.compute_units = 132;
  context.target.levels.resize(1);
  context.target.levels[0].capacity_bytes = 227 * 1024;
  return context;
}

// The gradients of what scores [2, 96, 80] were made of, through a weight w that lies in memory; queries of `depth`
// elements. dk is q^T ds, as the gradient of k^T comes out.
std::string gradients(int64_t depth, const std::string& type = "f16") {
  return fmt::format(R"(graph g {{
  input q : {1}[2, 96, {0}]
  input k : {1}[2, 80, {0}]
  input v : {1}[2, 80, 32]
  input o : {1}[2, 96, 32]
  input w : {1}[2, 96, 80]
  vt : {1}[2, 32, 80] = transpose(v) {{perm = [0, 2, 1]}}
  qt : {1}[2, {0}, 96] = transpose(q) {{perm = [0, 2, 1]}}
  dp : {1}[2, 96, 80] = matmul(o, vt)
  ds : {1}[2, 96, 80] = mul(w, dp)
  dq : {1}[2, 96, {0}] = matmul(ds, k)
  dkt : {1}[2, {0}, 80] = matmul(qt, ds)
  dk : {1}[2, 80, {0}] = transpose(dkt) {{perm = [0, 2, 1]}}
  output dq, dk
}})",
                     depth, type);
}

int products(const graph::Graph& graph) { return testing::count_nodes(graph, "matmul"); }

graph::Graph computed_again(const std::string& text) {
  const graph::Graph before = testing::parse(text), after = compute_again(before, of_gpu());
  testing::expect_same_function(before, after, 2e-2);
  return after;
}

TEST(ComputeAgain, EachGradientHasAProductOfItsOwn) {
  const graph::Graph after = computed_again(gradients(64));
  EXPECT_EQ(products(after), 4);
  // The wide value is on the left of both: a tile has rows of it.
  for (const graph::Node& node : after.nodes) {
    if (node.op != "matmul") continue;
    EXPECT_NE(after.value(node.inputs[1]).type.shape.back(), 96) << node.name;
  }
  // Equal nodes stay two, since each belongs to its reader.
  const graph::Graph merged = eliminate_common_subexpressions(after, of_gpu());
  EXPECT_EQ(products(merged), 4);
}

TEST(ComputeAgain, ChainsHaveAllOfIt) {
  const TransformContext context = of_gpu();
  graph::Graph graph = compute_again(testing::parse(gradients(64)), context);
  graph = fuse_chains(fuse(sink_transposes(graph, context), context), context);
  int groups = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!node.is_group() || testing::count_nodes(*node.body, "matmul") == 0) continue;
    EXPECT_EQ(testing::count_nodes(*node.body, "matmul"), 2) << node.name;
    ++groups;
  }
  EXPECT_EQ(groups, 2);
  testing::expect_same_function(testing::parse(gradients(64)), graph, 2e-2);
}

TEST(ComputeAgain, DeepProductsAndOtherTypesAreStored) {
  EXPECT_EQ(products(computed_again(gradients(160))), 3) << "queries of more columns than a tile has";
  EXPECT_EQ(products(computed_again(gradients(64, "f32"))), 3);
  const graph::Graph graph = testing::parse(gradients(64));
  EXPECT_EQ(products(compute_again(graph, testing::context())), 3) << "CPUs keep what they store in caches";
}

TEST(ComputeAgain, WhatOneProductReadsIsItsOwn) {
  std::string text = gradients(64);
  text.replace(text.find("output dq, dk"), 13, "output dq");
  EXPECT_EQ(products(computed_again(text)), 2);
}

// What leaves the model is computed for it once, and once more for each product.
TEST(ComputeAgain, OutputsAreKept) {
  std::string text = gradients(64);
  text.replace(text.find("output dq, dk"), 13, "output dq, dk, ds");
  EXPECT_EQ(products(computed_again(text)), 5);
}

// An attention and its gradients: the weights p are the left operand of a product, and on the way to three.
constexpr const char* kAttention = R"(graph g {
  input q : f16[2, 96, 64]
  input k : f16[2, 80, 64]
  input v : f16[2, 80, 32]
  input o : f16[2, 96, 32]
  input sums : f32[2, 96, 1]
  kt : f16[2, 64, 80] = transpose(k) {perm = [0, 2, 1]}
  vt : f16[2, 32, 80] = transpose(v) {perm = [0, 2, 1]}
  s : f16[2, 96, 80] = matmul(q, kt)
  p : f16[2, 96, 80] = softmax(s)
  y : f16[2, 96, 32] = matmul(p, v)
  pt : f16[2, 80, 96] = transpose(p) {perm = [0, 2, 1]}
  dv : f16[2, 80, 32] = matmul(pt, o)
  dp : f16[2, 96, 80] = matmul(o, vt)
  whole : f32[2, 96, 80] = cast(dp) {to = "f32"}
  less : f32[2, 96, 80] = sub(whole, sums)
  w : f32[2, 96, 80] = cast(p) {to = "f32"}
  dw : f32[2, 96, 80] = mul(w, less)
  ds : f16[2, 96, 80] = cast(dw) {to = "f16"}
  dq : f16[2, 96, 64] = matmul(ds, k)
  dst : f16[2, 80, 96] = transpose(ds) {perm = [0, 2, 1]}
  dk : f16[2, 80, 64] = matmul(dst, q)
  output y, dq, dk, dv
})";

TEST(ComputeAgain, WeightsOfAnAttentionComeFromTheirRowsStatistics) {
  const graph::Graph after = computed_again(kAttention);
  EXPECT_EQ(products(after), 4 + 2 + 4) << "scores four times, dp twice, and what they are multiplied by";
  for (const graph::Node& node : after.nodes) {
    EXPECT_EQ(node.outputs.size(), node.op == "softmax" ? 3U : 1U) << node.name;
  }
  EXPECT_EQ(testing::count_nodes(after, "softmax"), 1);
}

// What a mask hides has no weight, and says so: `add` of a matrix of zeros and `low`, or a select.
TEST(ComputeAgain, WeightsBehindAMaskAreZeros) {
  const TransformContext context = of_gpu();
  const auto of_mask = [&](double low, int64_t first, bool adds) {
    std::string text = kAttention;
    const std::string scores = "s : f16[2, 96, 80] = matmul(q, kt)";
    text.replace(text.find(scores), scores.size(),
                 adds ? "s0 : f16[2, 96, 80] = matmul(q, kt)\n  s : f16[2, 96, 80] = add(s0, m)"
                      : "s0 : f16[2, 96, 80] = matmul(q, kt)\n  s : f16[2, 96, 80] = where(m, s0, low)");
    graph::RefTensor mask = graph::RefTensor::zeros({adds ? DataType::f16() : DataType::boolean(), {96, 80}});
    for (int64_t e = 0; e < 96 * 80; ++e) {
      const bool kept = e % 80 <= e / 80 + first;
      if (adds) mask.floats[static_cast<size_t>(e)] = kept ? 0 : low;
      if (!adds) mask.ints[static_cast<size_t>(e)] = kept ? 1 : 0;
    }
    text.replace(text.find("  input sums"), 0,
                 adds ? "  input m : f16[96, 80]\n" : "  input m : bool[96, 80]\n  input low : f16[]\n");
    graph::Graph before = testing::parse(text);
    graph::RefTensor fill = graph::RefTensor::zeros({DataType::f16(), {}});
    fill.floats[0] = low;
    std::erase_if(before.inputs, [&](graph::ValueId id) {
      graph::Value& value = before.values[static_cast<size_t>(id)];
      if (value.name != "m" && value.name != "low") return false;
      value.constant = share((value.name == "m" ? mask : fill).to_bytes());
      return true;
    });
    graph::Graph after = compute_again(before, context);
    testing::expect_same_function(before, after, 2e-2);
    after = compute_masks(sink_transposes(after, context), context);
    int zeros = 0;
    for (const graph::Node& node : after.nodes)
      zeros += node.op == "band" && node.float_attr_or("fill", 1) == 0 ? 1 : 0;
    testing::expect_same_function(before, after, 2e-2);
    return zeros;
  };
  const double nothing = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(of_mask(nothing, 0, true), 3);
  EXPECT_EQ(of_mask(nothing, 0, false), 3);
  EXPECT_EQ(of_mask(-1000, 0, true), 0) << "not far below what scores may be";
  EXPECT_EQ(of_mask(nothing, -1, false), 0) << "rows without any key keep what is in its place";
}

// With dropout behind the softmax, as differentiate leaves it; the words that it compares with are the same for copies.
std::string with_dropout() {
  std::string text = kAttention;
  const auto put = [&](const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
  };
  put("  input sums", "  input seed : i64[]\n  input step : i64[]\n  input sums");
  put("  y : f16[2, 96, 32] = matmul(p, v)",
      "  pd : f16[2, 96, 80] = dropout(p, seed, step) {ratio = 0.25}\n  y : f16[2, 96, 32] = matmul(pd, v)");
  put("transpose(p) {perm", "transpose(pd) {perm");
  put("cast(dp)", "cast(dd)");
  put("  whole", "  dd : f16[2, 96, 80] = dropout(dp, seed, step) {ratio = 0.25}\n  whole");
  return text;
}

TEST(ComputeAgain, DropoutOfWeightsComesAgain) {
  const TransformContext context = of_gpu();
  const graph::Graph before = testing::parse(with_dropout());
  graph::Graph graph = compute_again(before, context);
  EXPECT_EQ(testing::count_nodes(graph, "dropout"), 2 + 2)
      << "of weights forward and for the values, of dp for each other one";
  graph = store_masks(sink_transposes(graph, context), context);
  EXPECT_EQ(testing::count_nodes(graph, "dropout_bits"), 1);
  graph = fuse_chains(fuse(graph, context), context);
  for (const graph::Node& node : graph.nodes) EXPECT_NE(node.op, "matmul") << graph::to_string(graph);
  testing::expect_same_function(before, graph, 2e-2);
}

TEST(ComputeAgain, WeightsThatAnotherWantsStayAsTheyAre) {
  for (const std::string also : {"output y, dq, dk, dv, p",
                                 "more : f16[2, 96] = reduce_sum(p) {axes = [2], keepdims = 0}\n"
                                 "  output y, dq, dk, dv, more"}) {
    std::string text = kAttention;
    text.replace(text.find("output y"), 20, also);
    for (const graph::Node& node : computed_again(text).nodes) EXPECT_EQ(node.outputs.size(), 1U) << node.name;
  }
}

TEST(ComputeAgain, AnAttentionAndItsGradientsAreOneKernelEach) {
  const TransformContext context = of_gpu();
  const graph::Graph before = testing::parse(kAttention);
  graph::Graph graph = compute_again(before, context);
  graph = fuse_chains(fuse(sink_transposes(graph, context), context), context);
  std::vector<int> counts;
  for (const graph::Node& node : graph.nodes) {
    EXPECT_NE(node.op, "matmul") << node.name;
    if (node.is_group()) counts.push_back(static_cast<int>(testing::count_nodes(*node.body, "matmul")));
  }
  std::ranges::sort(counts);
  EXPECT_EQ(counts, (std::vector<int>{2, 2, 3, 3}));
  testing::expect_same_function(before, graph, 2e-2);
}

// Parts of one value that are turned, too: nobody copies either.
TEST(ComputeAgain, IndexMapsOfIndexMapsBelongToTheirReaders) {
  const TransformContext context = of_gpu();
  const graph::Graph graph = testing::parse(R"(graph g {
  input x : f16[4, 96, 3, 64]
  input a : f16[4, 80, 64]
  input b : f16[4, 72, 64]
  part : f16[4, 96, 1, 64] = slice(x) {starts = [0, 0, 1, 0], steps = [1, 1, 1, 1], extents = [4, 96, 1, 64]}
  turned : f16[4, 1, 64, 96] = transpose(part) {perm = [0, 2, 3, 1]}
  more : f16[4, 1, 64, 96] = mul(turned, turned)
  left : f16[4, 64, 96] = reshape(more) {shape = [4, 64, 96]}
  ya : f16[4, 80, 96] = matmul(a, left)
  other : f16[4, 1, 64, 96] = add(turned, turned)
  right : f16[4, 64, 96] = reshape(other) {shape = [4, 64, 96]}
  yb : f16[4, 72, 96] = matmul(b, right)
  output ya, yb
})");
  const graph::Graph fused = fuse(graph, context);
  for (const graph::Node& node : fused.nodes) EXPECT_NE(node.op, "slice") << "a copy";
  testing::expect_same_function(graph, fused, 2e-2);
}

}  // namespace
}  // namespace tw::transform
