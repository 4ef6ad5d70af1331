// Which convolutions become Winograd convolutions, and that they stay the same function.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/winograd.h"
#include "tests/harness/winograd_weights.h"
#include "tests/transform/graph_tools.h"
#include "transform/passes.h"
#include "transform/rewrite/winograd_weights.h"
#include "transform/winograd_problem.h"

namespace tw::transform {
namespace {

using cost::conv_ns, cost::ConvProblem, cost::WeightsHome;
using graph::Graph;

struct Conv {
  Shape x, w;
  graph::Attrs attrs = {};
};

graph::Attrs pads(size_t rank, int64_t pad) { return {{"pads", std::vector<int64_t>(2 * rank, pad)}}; }

enum class Weights : uint8_t { kConstant, kInput };

Graph convolution(const Conv& c, Weights weights = Weights::kConstant, DataType type = DataType::f32()) {
  Graph g;
  graph::Node conv;
  conv.op = conv.name = "conv";
  conv.attrs = c.attrs;
  conv.inputs = {g.add_input("x", {type, c.x})};
  if (weights == Weights::kInput) {
    conv.inputs.push_back(g.add_input("w", {type, c.w}));
  } else {
    graph::RefTensor w = graph::RefTensor::zeros({type, c.w});
    std::mt19937_64 random(7);
    for (double& v : w.floats) v = std::uniform_real_distribution<double>(-1, 1)(random);
    w.round_to_type();
    conv.inputs.push_back(g.add_constant("w", w.type, share(w.to_bytes())));
  }
  g.outputs = graph::append_node(g, testing::context().ops, conv);
  return g;
}

// Two cores of 100 GFLOP/s with caches of the usual sizes.
TransformContext measured() {
  TransformContext context = testing::context();
  TargetInfo& t = context.target;
  t.vector_bytes = 32;
  t.compute_units = 2;
  t.flop_per_ns = 100;
  t.levels = {
      {.name = "L1", .capacity_bytes = 32 << 10},
      {.name = "L2", .capacity_bytes = 512 << 10},
      {.name = "L3", .capacity_bytes = 32 << 20, .shared = true, .latency_ns = 20, .read_per_ns = 60, .all_per_ns = 65},
      {.name = "DRAM", .capacity_bytes = int64_t{16} << 30, .shared = true, .read_per_ns = 24, .all_per_ns = 47}};
  return context;
}

// The tile size after the pass, 0 for a direct convolution.
int64_t chosen(const Graph& g, const TransformContext& context = measured()) {
  const Graph after = choose_algorithms(g, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(g, after, 1e-5);
  const auto found = std::ranges::find(after.nodes, "winograd_conv", &graph::Node::op);
  return found != after.nodes.end() ? found->int_attr("m") : 0;
}

TEST(ChooseAlgorithms, TilesOfFourWherePlanesAreLarge) {
  EXPECT_EQ(chosen(convolution({{1, 64, 28, 28}, {64, 64, 3, 3}, pads(2, 1)})), 4);
  EXPECT_EQ(chosen(convolution({{1, 16, 20, 20}, {24, 16, 3, 3}})), 4);
  EXPECT_EQ(chosen(convolution({{1, 16, 4, 12, 12}, {16, 16, 3, 3, 3}, pads(3, 1)})), 4);
}

// Small planes with many channels: reading the weights is what costs.
TEST(ChooseAlgorithms, LessWeightWherePlanesAreSmall) {
  const auto best = [](const ConvProblem& p, WeightsHome home) {
    int64_t m = 0;
    for (const int64_t other : {2, 4}) {
      if (conv_ns(p, other, home, measured().target) < conv_ns(p, m, home, measured().target)) m = other;
    }
    return m;
  };
  const ConvProblem small{.channels = 512, .out_channels = 512, .high = 7, .wide = 7};
  EXPECT_EQ(best(small, WeightsHome::kMemory), 2);
  EXPECT_EQ(best({.channels = 512, .out_channels = 512, .high = 2, .wide = 2}, WeightsHome::kMemory), 0);
  ConvProblem batch = small;
  batch.batch = 16;
  EXPECT_EQ(best(batch, WeightsHome::kMemory), 4);
}

// A tile of all depths is larger than L2: its transformed input would be read line by line.
TEST(ChooseAlgorithms, DirectWhereOneTransformedTileFillsTheCache) {
  ConvProblem deep{
      .channels = 960, .out_channels = 16, .depth = 6, .out_depth = 4, .kernel_depth = 3, .high = 14, .wide = 14};
  const auto gain = [&](const ConvProblem& p) {
    return conv_ns(p, 0, WeightsHome::kSharedCache, measured().target) /
           conv_ns(p, 4, WeightsHome::kSharedCache, measured().target);
  };
  EXPECT_LT(gain(deep), 1);
  deep.channels = 256;
  EXPECT_GT(gain(deep), 1.5);
}

// A larger L2 keeps one tile, so that the weights pass by for every tile: no better where few products read what is
// written.
TEST(ChooseAlgorithms, DirectWhereWeightsPassForEveryTile) {
  TargetInfo target = measured().target;
  target.levels[1].capacity_bytes = 2 << 20;
  target.levels[2].all_per_ns = 30;
  const ConvProblem deep{
      .channels = 960, .out_channels = 16, .depth = 6, .out_depth = 4, .kernel_depth = 3, .high = 14, .wide = 14};
  const double direct = conv_ns(deep, 0, WeightsHome::kSharedCache, target);
  EXPECT_GT(conv_ns(deep, 4, WeightsHome::kSharedCache, target), direct);
  target.levels[2].all_per_ns = 300;  // a cache that delivers them in no time
  EXPECT_LT(conv_ns(deep, 4, WeightsHome::kSharedCache, target), direct);
}

TEST(ChooseAlgorithms, StaysDirect) {
  const Shape x{1, 32, 16, 16}, w{32, 32, 3, 3};
  EXPECT_EQ(chosen(convolution({x, {32, 32, 1, 1}})), 0);
  EXPECT_EQ(chosen(convolution({x, {32, 32, 5, 5}})), 0);
  EXPECT_EQ(chosen(convolution({x, w, {{"strides", std::vector<int64_t>{2, 2}}}})), 0);
  EXPECT_EQ(chosen(convolution({x, w, {{"dilations", std::vector<int64_t>{2, 2}}}})), 0);
  EXPECT_EQ(chosen(convolution({x, {32, 16, 3, 3}, {{"group", int64_t{2}}}})), 0);
  EXPECT_EQ(chosen(convolution({{1, 3, 16, 16}, {32, 3, 3, 3}})), 0);
  EXPECT_EQ(chosen(convolution({x, w}, Weights::kInput)), 0);
  EXPECT_EQ(chosen(convolution({x, w}, Weights::kConstant, DataType::f16())), 0);
  EXPECT_EQ(chosen(convolution({{0, 32, 16, 16}, w})), 0);
  EXPECT_NE(chosen(convolution({x, w})), 0);
}

TEST(ChooseAlgorithms, WeightsThatAreComputedAreTransformedInEachRun) {
  EXPECT_EQ(chosen(convolution({{32, 64, 16, 16}, {64, 64, 3, 3}, pads(2, 1)}, Weights::kInput)), 4);
  EXPECT_EQ(chosen(convolution({{8, 16, 4, 12, 12}, {16, 16, 3, 3, 3}, pads(3, 1)}, Weights::kInput)), 4);
  EXPECT_EQ(chosen(convolution({{1, 64, 7, 7}, {64, 64, 3, 3}, pads(2, 1)}, Weights::kInput)), 0)
      << "a transform that is used once";
}

std::vector<graph::RefTensor> computed_weights(const graph::RefTensor& w, int64_t m) {
  Graph g;
  const graph::ValueId id = g.add_input("w", w.type);
  Editor editor(g, testing::context().ops);
  const WinogradWeights weights = compute_winograd_weights(editor, {.op = "conv", .name = "c", .inputs = {id, id}}, m);
  Graph out = editor.graph();
  out.outputs = {weights.transformed, weights.scales};
  return testing::outputs_of(out, {w});
}

TEST(ChooseAlgorithms, ComputedWeightsAreThoseOfTheDefinition) {
  for (const Shape& shape : {Shape{5, 3, 3, 3}, Shape{2, 3, 2, 3, 3}}) {
    Graph g;
    g.add_input("w", {DataType::f32(), shape});
    const graph::RefTensor w = testing::random_inputs(g, 3)[0];
    for (const int64_t m : {2, 4}) {
      const std::vector<graph::RefTensor> got = computed_weights(w, m);
      const graph::RefTensor want = tw::testing::winograd_weights(w, m), scales = tw::testing::winograd_scales(w);
      ASSERT_EQ(got[0].type, want.type);
      for (size_t i = 0; i < want.floats.size(); ++i) ASSERT_NEAR(got[0].floats[i], want.floats[i], 1e-6) << i;
      for (size_t i = 0; i < scales.floats.size(); ++i) EXPECT_NEAR(got[1].floats[i], scales.floats[i], 1e-6) << i;
    }
  }
}

TEST(ChooseAlgorithms, WhatDoesNotSuitIsSummedDirectly) {
  graph::RefTensor even = graph::RefTensor::zeros({DataType::f32(), {2, 3, 3, 3}});
  for (size_t i = 0; i < even.floats.size(); ++i) even.floats[i] = 1 + static_cast<double>(i % 4);
  const auto are_finite = [](const graph::RefTensor& w) {
    const std::vector<double> scales = computed_weights(w, 4)[1].floats;
    const std::vector<float> kernels(w.floats.begin(), w.floats.end());
    const bool finite = std::ranges::all_of(scales, [](double s) { return std::isfinite(s); });
    EXPECT_EQ(finite, ops::suits_winograd(w.type.shape, kernels.data()));
    return finite;
  };
  EXPECT_TRUE(are_finite(even));
  graph::RefTensor corner = even, large = even, broken = even;
  for (size_t i = 0; i < 27; ++i) corner.floats[i] = i % 9 == 8 ? 1 : 0;
  large.floats[5] = 0x1p41;
  broken.floats[5] = std::numeric_limits<double>::quiet_NaN();
  for (const graph::RefTensor& w : {corner, large, broken}) EXPECT_FALSE(are_finite(w));
  EXPECT_TRUE(are_finite(graph::RefTensor::zeros(even.type))) << "sums of zeros";
}

TEST(ChooseAlgorithms, StrictPrecisionAndUnmeasuredTargetsStayDirect) {
  const Graph g = convolution({{1, 32, 16, 16}, {32, 32, 3, 3}});
  TransformContext strict = measured();
  strict.precision = Precision::kStrict;
  EXPECT_EQ(chosen(g, strict), 0);
  EXPECT_EQ(chosen(g, testing::context()), 0);
}

TEST(ChooseAlgorithms, TransformedWeightsAreThoseOfTheDefinition) {
  for (const Shape& shape : {Shape{5, 3, 3, 3}, Shape{2, 3, 2, 3, 3}}) {
    for (const int64_t m : {2, 4}) {
      Graph g;
      g.add_input("w", {DataType::f32(), shape});
      const graph::RefTensor w = testing::random_inputs(g, 3)[0];
      graph::RefTensor want = tw::testing::winograd_weights(w, m);
      want.round_to_type();
      const std::vector<float> kernels(w.floats.begin(), w.floats.end());
      std::vector<float> u(want.floats.size());
      ops::transform_winograd_weights(shape, m, kernels.data(), u.data());
      EXPECT_EQ(ops::winograd_weights_shape(shape, m), want.type.shape);
      for (size_t i = 0; i < u.size(); ++i) ASSERT_NEAR(u[i], want.floats[i], 1e-7) << i;
    }
  }
}

}  // namespace
}  // namespace tw::transform
