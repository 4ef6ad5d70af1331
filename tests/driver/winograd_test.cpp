// Winograd convolutions as they are compiled: their error against the direct algorithm's and against the bound that
// verify allows, and when they are used at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "artefact/bounded.h"
#include "artefact/session.h"
#include "artefact/verify.h"
#include "driver/tune/tolerance.h"
#include "ops/list.h"
#include "plan/plan.h"
#include "tests/driver/random_model.h"
#include "tests/graph/sample.h"
#include "tests/harness/winograd_weights.h"

namespace tw::driver::test {
namespace {

using graph::test::add;

struct Size {
  int64_t channels = 32, plane = 20;
};

// y = relu(conv(x, w) + residual), w constant.
graph::Graph model(const Size& size) {
  graph::Graph g;
  g.name = "conv";
  graph::RefTensor w = graph::RefTensor::zeros({DataType::f32(), {size.channels, size.channels, 3, 3}});
  for (size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = std::sin(static_cast<double>(i * i % 9973));
  w.round_to_type();
  const TensorType image{DataType::f32(), {1, size.channels, size.plane, size.plane}};
  const auto x = g.add_input("x", image);
  const auto other = g.add_input("other", image);
  const auto weights = g.add_constant("w", w.type, share(w.to_bytes()));
  const auto y = add(g, "conv", {x, weights}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  g.outputs = {add(g, "relu", {add(g, "add", {y, other})})};
  return g;
}

bool uses_winograd(const Compiled& compiled) {
  return std::ranges::any_of(compiled.plan.entries.at(0).groups,
                             [](const plan::GroupPlan& g) { return g.family == "winograd"; });
}

struct Errors {
  double root_mean_square = 0;
  double largest_share = 0;  // of the bound that verify gives a Winograd convolution
};

Errors errors_of(const graph::Graph& source, const Compiled& compiled, const graph::Graph& bounded_as) {
  const std::vector<artefact::Array> inputs = random_arrays(source, 5);
  std::vector<graph::RefTensor> reference;
  for (const artefact::Array& a : inputs) reference.push_back(artefact::to_reference(a));
  const artefact::Bounded want = artefact::evaluate_bounded(bounded_as, ops::all_ops(), reference, 2);
  const graph::RefTensor got =
      artefact::to_reference(artefact::Session::load_memory(artefact_bytes(compiled), {}).run(inputs)[0]);
  const graph::RefTensor exact = artefact::evaluate_bounded(source, ops::all_ops(), reference, 0).values[0];
  Errors errors;
  for (size_t i = 0; i < got.floats.size(); ++i) {
    const double off = std::fabs(got.floats[i] - exact.floats[i]);
    errors.root_mean_square += off * off;
    errors.largest_share = std::max(errors.largest_share, off / want.bounds[0][i]);
  }
  errors.root_mean_square = std::sqrt(errors.root_mean_square / static_cast<double>(got.floats.size()));
  return errors;
}

graph::ValueId add_rounded(graph::Graph& g, const std::string& name, graph::RefTensor t) {
  t.round_to_type();
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

// The same model with the convolution as winograd_conv with tiles of m x m.
graph::Graph with_tiles(const graph::Graph& source, int64_t m) {
  graph::Graph g = source;
  graph::Node& conv = g.nodes[0];
  const graph::Value& w = g.values[conv.inputs[1]];
  const graph::RefTensor kernels = graph::RefTensor::from_bytes(w.type, *w.constant);
  conv.inputs = {conv.inputs[0], add_rounded(g, "u", testing::winograd_weights(kernels, m)), conv.inputs[1],
                 add_rounded(g, "scales", testing::winograd_scales(kernels))};
  conv.op = "winograd_conv";
  conv.attrs["m"] = m;
  return g;
}

// The same with the transformed weights times `factor`.
graph::Graph with_scaled_weights(const graph::Graph& tiled, double factor) {
  graph::Graph scaled = tiled;
  graph::Value& u = scaled.values[scaled.nodes[0].inputs[1]];
  graph::RefTensor changed = graph::RefTensor::from_bytes(u.type, *u.constant);
  for (double& v : changed.floats) v *= factor;
  changed.round_to_type();
  u.constant = share(changed.to_bytes());
  return scaled;
}

TEST(WinogradErrors, AreNearThoseOfTheDirectConvolution) {
  for (const Size& size : {Size{16, 9}, Size{64, 14}, Size{96, 30}}) {
    const graph::Graph source = model(size);
    CompileOptions direct;
    direct.precision = Precision::kStrict;
    const Compiled plain = compile_graph(source, direct);
    ASSERT_FALSE(uses_winograd(plain));
    for (const int64_t m : {2, 4}) {
      const graph::Graph tiled = with_tiles(source, m);
      const Compiled compiled = compile_graph(tiled, {});
      ASSERT_TRUE(uses_winograd(compiled)) << plan::to_string(compiled.plan);
      const Errors base = errors_of(source, plain, tiled);
      const Errors errors = errors_of(source, compiled, tiled);
      const double ratio = errors.root_mean_square / base.root_mean_square;
      RecordProperty(fmt::format("rms_over_direct_m{}_c{}", m, size.channels), std::to_string(ratio));
      std::printf(
          "F(%d x %d) of %d channels, %d x %d: rms error %.3g, %.2f times the direct one; largest %.4f of the bound\n",
          static_cast<int>(m), static_cast<int>(m), static_cast<int>(size.channels), static_cast<int>(size.plane),
          static_cast<int>(size.plane), errors.root_mean_square, ratio, errors.largest_share);
      // F(2 x 2) sums fewer products than the direct algorithm and errs less; F(4 x 4) is known for about twice as
      // much.
      EXPECT_LT(ratio, m == 2 ? 1 : 3);
      EXPECT_LT(errors.largest_share, 0.002);
      // What is wrong in the fifth digit shows in both figures.
      const Errors wrong = errors_of(source, compile_graph(with_scaled_weights(tiled, 1.00005), {}), tiled);
      EXPECT_GT(wrong.root_mean_square, 3 * base.root_mean_square);
      EXPECT_GT(wrong.largest_share, 0.002);
    }
  }
}

// End to end the bound is that of the direct convolution, which is what the model asks for.
TEST(WinogradVerify, FindsWeightsThatAreAThousandthOff) {
  const graph::Graph source = model({16, 9});
  const graph::Graph tiled = with_tiles(source, 4);
  const std::vector<artefact::Array> inputs = random_arrays(source, 1);
  const std::vector<uint8_t> right = artefact_bytes(compile_graph(tiled, {}));
  const std::vector<uint8_t> wrong = artefact_bytes(compile_graph(with_scaled_weights(tiled, 1.001), {}));
  const artefact::VerifyReport by_source = artefact::verify_artefact(right, &source, inputs, {});
  EXPECT_TRUE(by_source.ok());
  EXPECT_FALSE(artefact::verify_artefact(wrong, &source, inputs, {}).ok());
  // So it is without the model, against the graph in the artefact, where the convolution is one by tiles.
  const artefact::VerifyReport by_itself = artefact::verify_artefact(right, nullptr, inputs, {});
  EXPECT_TRUE(by_itself.ok());
  EXPECT_LT(by_itself.outputs[0].bound, 1.5 * by_source.outputs[0].bound);
  EXPECT_FALSE(artefact::verify_artefact(wrong, nullptr, inputs, {}).ok());
}

// An input of 1e6 among inputs of 1 in each corner of a tile: outputs that do not read it are as exact as all others.
TEST(WinogradSpecialValues, LargeNumbersReachTheOutputsThatReadThem) {
  for (const double large : {1e3, 1e4, 1e6, 1e8, 1e20}) {
    for (const int64_t m : {2, 4}) {
      const graph::Graph source = model({64, 14});
      std::vector<artefact::Array> inputs = random_arrays(source, 5);
      auto* x = reinterpret_cast<float*>(inputs[0].bytes.data());
      for (size_t i = 0; i < 64 * 14 * 14; i += 14 * 9 + 11) x[i] *= static_cast<float>(large);
      const artefact::VerifyReport report =
          artefact::verify_artefact(artefact_bytes(compile_graph(with_tiles(source, m), {})), &source, inputs, {});
      EXPECT_TRUE(report.ok()) << large;
      // Bounds are sampled: of those of single elements some are small by chance. A tile without a way round is
      // hundreds.
      for (const artefact::GroupCheck& g : report.groups) {
        for (const WorstElement& w : g.outputs) EXPECT_LE(w.beyond_operator, w.elements / 2000) << large << ", m " << m;
      }
    }
  }
}

TEST(WinogradSpecialValues, NanAndInfinitiesReachTheOutputsThatReadThem) {
  for (const float special : {NAN, INFINITY, -INFINITY}) {
    for (const int64_t m : {2, 4}) {
      const graph::Graph source = model({16, 21});
      std::vector<artefact::Array> inputs = random_arrays(source, 5);
      for (const size_t at : {0, 5 * 21 + 20, 3 * 441 + 9 * 21 + 8, 15 * 441 + 440})
        reinterpret_cast<float*>(inputs[0].bytes.data())[at] = special;
      const artefact::VerifyReport report =
          artefact::verify_artefact(artefact_bytes(compile_graph(with_tiles(source, m), {})), &source, inputs, {});
      EXPECT_TRUE(report.ok()) << special;
      for (const artefact::GroupCheck& g : report.groups) EXPECT_EQ(g.beyond_operator(), 0) << special << ", m " << m;
    }
  }
}

// Of an algorithm that goes on with the tile all the same, verify says that its own bound allows what the operator's
// does not: weights that are a ten-thousandth off.
TEST(WinogradVerify, CountsWhatOnlyTheAlgorithmAllows) {
  const graph::Graph source = model({16, 9});
  const graph::Graph scaled = with_scaled_weights(with_tiles(source, 4), 1.0002);
  const artefact::VerifyReport report =
      artefact::verify_artefact(artefact_bytes(compile_graph(scaled, {})), nullptr, random_arrays(source, 1), {});
  int64_t wrong = 0, beyond = 0;
  for (const artefact::GroupCheck& g : report.groups) {
    for (const WorstElement& w : g.outputs) wrong += w.wrong;
    beyond += g.beyond_operator();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(beyond, 0);
}

TEST(WinogradChoice, DefaultPrecisionOnlyAndReplayable) {
  const graph::Graph source = model({64, 28});
  const Compiled compiled = compile_graph(source, {});
  EXPECT_TRUE(uses_winograd(compiled));
  EXPECT_EQ(compiled.winograd_groups, 1);
  EXPECT_TRUE(artefact::verify_graph(source, {}, random_arrays(source, 1), {}).ok());
  CompileOptions replay;
  replay.plan_text = plan::to_string(compiled.plan);
  EXPECT_EQ(artefact_bytes(compile_graph(source, replay)), artefact_bytes(compiled));
  CompileOptions off;
  off.disabled_passes = {"choose-algorithms"};
  EXPECT_FALSE(uses_winograd(compile_graph(source, off)));
}

}  // namespace
}  // namespace tw::driver::test
