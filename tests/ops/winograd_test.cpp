// Winograd convolution: both references against each other and against the direct convolution, te against reference.
#include "ops/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "check.h"
#include "ops/list.h"
#include "support/error.h"
#include "tests/harness/te_evaluate.h"
#include "tests/harness/winograd_weights.h"

namespace tw::ops::test {
namespace {

struct Geometry {
  Shape x, w;
  Ints pads = {};
  Ints strides = {}, dilations = {};
};

const std::vector<Geometry> kGeometries = {
    {{1, 1, 3, 3}, {1, 1, 3, 3}},                            // one output point
    {{1, 2, 6, 6}, {3, 2, 3, 3}},                            // whole tiles
    {{2, 3, 7, 5}, {5, 3, 3, 3}, {1, 1, 1, 1}},              // tails both ways
    {{1, 5, 13, 11}, {2, 5, 3, 3}, {0, 2, 1, 0}},            // pads of different width
    {{1, 1, 1, 1}, {2, 1, 3, 3}, {1, 1, 1, 1}},              // a point and its padding
    {{1, 2, 4, 5, 7}, {3, 2, 3, 3, 3}, {1, 1, 1, 1, 1, 1}},  // three axes
    {{2, 2, 5, 4, 6}, {3, 2, 2, 3, 3}, {1, 0, 1, 0, 1, 0}, {2, 1, 1}, {2, 1, 1}},
    {{1, 2, 3, 6, 6}, {3, 2, 1, 3, 3}},
};

RefTensor random(const Shape& shape, uint64_t seed) {
  RefTensor t = RefTensor::zeros(f32(shape));
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  for (double& x : t.floats) x = real(generator);
  t.round_to_type();
  return t;
}

Attrs attrs_of(const Geometry& g) {
  Attrs attrs;
  if (!g.pads.empty()) attrs["pads"] = g.pads;
  if (!g.strides.empty()) attrs["strides"] = g.strides;
  if (!g.dilations.empty()) attrs["dilations"] = g.dilations;
  return attrs;
}

Case winograd_case(const Geometry& g, int64_t m, const std::vector<RefTensor>& inputs) {
  Case c{.op = "winograd_conv", .inputs = {}, .attrs = attrs_of(g), .tolerance = 1e-10};
  c.attrs["m"] = m;
  for (const RefTensor& input : inputs) c.inputs.push_back(input.type);
  return c;
}

TEST(Winograd, IsTheDirectConvolution) {
  for (const Geometry& g : kGeometries) {
    const RefTensor x = random(g.x, 1), w = random(g.w, 2), bias = random({g.w[0]}, 3);
    const RefTensor want =
        run({.op = "conv", .inputs = {x.type, w.type, bias.type}, .attrs = attrs_of(g), .tolerance = 1e-9},
            {x, w, bias})[0];
    for (const int64_t m : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} {} m {}", to_string(g.x), to_string(g.w), m));
      std::vector<RefTensor> inputs = testing::winograd_inputs(x, w, m);
      run(winograd_case(g, m, inputs), inputs);
      inputs.push_back(bias);
      const RefTensor got = run(winograd_case(g, m, inputs), inputs)[0];
      ASSERT_EQ(got.type, want.type);
      for (size_t i = 0; i < want.floats.size(); ++i) ASSERT_NEAR(got.floats[i], want.floats[i], 1e-10) << i;
    }
  }
}

// Which tiles are uneven, from the te program.
std::vector<int64_t> uneven_tiles(const Geometry& g, int64_t m, const RefTensor& x, const RefTensor& w) {
  const std::vector<RefTensor> inputs = testing::winograd_inputs(x, w, m);
  const graph::OpTable ops = all_ops();
  const graph::Graph alone = single(winograd_case(g, m, inputs));
  const graph::GroupProgram group = graph::to_te(alone, ops);
  te::ValueMap given;
  for (size_t k = 0; k < group.inputs.size(); ++k) {
    const RefTensor& value = inputs.at(std::ranges::find(alone.inputs, group.inputs[k]) - alone.inputs.begin());
    given[group.program.inputs[k].name] = {value.type.type, value.type.shape, value.floats, {}};
  }
  return te::evaluate(group.program, given).at("winograd_conv_uneven").ints;
}

// Numbers of one size are even, zeros around an image are, and a number 1e4 times as large is not: nor is NaN.
TEST(Winograd, TilesAreUnevenWhereALargeNumberIsNear) {
  for (const int64_t m : {2, 4}) {
    const Geometry g{{1, 16, 3 * m, 3 * m}, {4, 16, 3, 3}, {1, 1, 1, 1}};
    const RefTensor x = random(g.x, 1), w = random(g.w, 2);
    EXPECT_EQ(uneven_tiles(g, m, x, w), Ints(9, 0));
    RefTensor zeros = x;
    std::ranges::fill(zeros.floats, 0.0);
    EXPECT_EQ(uneven_tiles(g, m, zeros, w), Ints(9, 0));
    for (const double special : {1e4, -1e6, 1e30, std::nan(""), HUGE_VAL}) {
      RefTensor odd = x;
      odd.floats[3 * m * m + 1 + m] = special;  // row m, column m + 1 of the first channel
      const Ints read_it = m == 4 ? Ints{0, 1, 0, 0, 1, 0, 0, 0, 0} : Ints{0, 1, 1, 0, 1, 1, 0, 0, 0};
      EXPECT_EQ(uneven_tiles(g, m, odd, w), read_it) << special;
      // Where the channel does not count, neither does its size.
      RefTensor without = w;
      for (int64_t oc = 0; oc < 4; ++oc) std::fill_n(without.floats.begin() + oc * 16 * 9, 9, 0.0);
      if (!std::isfinite(special)) continue;
      EXPECT_EQ(uneven_tiles(g, m, odd, without), Ints(9, 0)) << special;
    }
  }
}

// Scales make the test one of what channels contribute: a large channel of small weights hides nothing.
TEST(Winograd, TilesAreUnevenByWhatChannelsContribute) {
  const Geometry g{{1, 16, 12, 12}, {4, 16, 3, 3}, {1, 1, 1, 1}};
  RefTensor x = random(g.x, 1), w = random(g.w, 2);
  x.floats[6 * 12 + 6] = 1e4;  // of the first channel
  for (int64_t i = 0; i < 144; ++i) x.floats[144 + i] *= 1e6;
  for (int64_t oc = 0; oc < 4; ++oc) {
    for (int64_t position = 0; position < 9; ++position) w.floats[(oc * 16 + 1) * 9 + position] *= 1e-6;
  }
  EXPECT_EQ(uneven_tiles(g, 4, x, w)[4], 1);
}

// Outputs that do not read what is special are those of the direct convolution to the last digits.
TEST(Winograd, SpecialValuesReachWhatReadsThem) {
  const std::vector<Geometry> geometries = {{{2, 5, 9, 11}, {3, 5, 3, 3}, {1, 1, 1, 1}},
                                            {{1, 5, 4, 7, 6}, {3, 5, 3, 3, 3}, {1, 1, 1, 1, 1, 1}}};
  for (const Geometry& g : geometries) {
    const RefTensor w = random(g.w, 2);
    for (const double special : {1e8, 1e20, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      RefTensor x = random(g.x, 1);
      for (size_t i = 7; i < x.floats.size(); i += 61) x.floats[i] = special;
      for (const int64_t m : {2, 4}) {
        const std::vector<RefTensor> inputs = testing::winograd_inputs(x, w, m);
        run(winograd_case(g, m, inputs), inputs);
      }
    }
  }
}

TEST(Winograd, WeightsThatSuitIt) {
  const Shape shape{2, 3, 3, 3};
  std::vector<float> w(54, 1.0F);
  EXPECT_TRUE(suits_winograd(shape, w.data()));
  const auto with = [&](size_t at, float value) {
    std::vector<float> other = w;
    other[at] = value;
    return suits_winograd(shape, other.data());
  };
  EXPECT_TRUE(with(4, 1e6F));  // every output multiplies the middle by an input
  EXPECT_TRUE(with(0, 10));
  EXPECT_FALSE(with(27, 1e4F));  // the corner of the second filter, where an edge has padding
  EXPECT_FALSE(with(5, NAN));
  EXPECT_FALSE(with(5, INFINITY));
  EXPECT_FALSE(with(4, 1e30F));
  EXPECT_EQ(winograd_scales({1, 2, 3, 3}, std::vector<float>(18, 2.0F).data()), (std::vector<float>{1, 1}));
}

TEST(Winograd, MatricesOfTheSmallTile) {
  const Winograd& w = winograd(2);
  EXPECT_EQ(w.input, (Winograd::Matrix{{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}}));
  EXPECT_EQ(w.output, (Winograd::Matrix{{1, 1, 1, 0}, {0, 1, -1, 1}}));
  EXPECT_EQ(w.weights, (Winograd::Matrix{{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}));
}

// Immediates of te are f32: entries of both matrices that are applied at run time lose nothing there.
TEST(Winograd, MatricesAreExactInF32) {
  for (const int64_t m : {2, 4}) {
    for (const Winograd::Matrix* matrix : {&winograd(m).input, &winograd(m).output}) {
      for (const std::vector<double>& row : *matrix) {
        for (const double x : row) EXPECT_EQ(static_cast<double>(static_cast<float>(x)), x);
      }
    }
  }
}

TEST(Winograd, GrowthIsTheDocumentedOne) {
  EXPECT_NEAR(winograd_growth(2), 16, 1e-9);
  EXPECT_NEAR(winograd_growth(4), 186.8, 0.1);
}

TEST(Winograd, Rejects) {
  const auto rejects = [](std::vector<TensorType> inputs, Attrs attrs) {
    EXPECT_THROW(single({.op = "winograd_conv", .inputs = std::move(inputs), .attrs = std::move(attrs)}), UserError);
  };
  const Attrs two{{"m", int64_t{2}}};
  const TensorType x = f32({1, 3, 8, 8}), u = f32({4, 4, 3, 5}), w = f32({5, 3, 3, 3}), scales = f32({3});
  EXPECT_NO_THROW(single({.op = "winograd_conv", .inputs = {x, u, w, scales, f32({5})}, .attrs = two}));
  rejects({f32({1, 4, 8, 8}), u, w, scales}, two);                  // other channels
  rejects({x, f32({6, 6, 3, 5}), w, scales}, two);                  // other tiles
  rejects({x, u, f32({5, 3, 5, 5}), scales}, two);                  // other kernels
  rejects({x, u, w, f32({5})}, two);                                // other scales
  rejects({x, f32({5, 5, 3, 5}), w, scales}, {{"m", int64_t{3}}});  // no such tile
  rejects({f16({1, 3, 8, 8}), u, w, scales}, two);                  // no f32
  rejects({x, u, w, scales, f32({4})}, two);                        // bias of another size
  rejects({x, u, w, scales}, {{"m", int64_t{2}}, {"strides", Ints{2, 1}}});
  rejects({x, u, w, scales}, {{"m", int64_t{2}}, {"dilations", Ints{1, 2}}});
}

}  // namespace
}  // namespace tw::ops::test
