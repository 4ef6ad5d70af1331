// Winograd convolution: both references against each other and against the direct convolution, te against reference.
#include "ops/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "check.h"
#include "support/error.h"
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

TEST(Winograd, IsTheDirectConvolution) {
  for (const Geometry& g : kGeometries) {
    const RefTensor x = random(g.x, 1), w = random(g.w, 2), bias = random({g.w[0]}, 3);
    const RefTensor want =
        run({.op = "conv", .inputs = {x.type, w.type, bias.type}, .attrs = attrs_of(g), .tolerance = 1e-9},
            {x, w, bias})[0];
    for (const int64_t m : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} {} m {}", to_string(g.x), to_string(g.w), m));
      Attrs attrs = attrs_of(g);
      attrs["m"] = m;
      const RefTensor u = testing::winograd_weights(w, m);
      const Case c{.op = "winograd_conv", .inputs = {x.type, u.type, bias.type}, .attrs = attrs, .tolerance = 1e-10};
      const RefTensor got = run(c, {x, u, bias})[0];
      ASSERT_EQ(got.type, want.type);
      for (size_t i = 0; i < want.floats.size(); ++i) ASSERT_NEAR(got.floats[i], want.floats[i], 1e-10) << i;
      run({.op = "winograd_conv", .inputs = {x.type, u.type}, .attrs = attrs, .tolerance = 1e-10}, {x, u});
    }
  }
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
  rejects({f32({1, 3, 8, 8}), f32({4, 4, 4, 5})}, two);                  // other channels
  rejects({f32({1, 3, 8, 8}), f32({6, 6, 3, 5})}, two);                  // other tiles
  rejects({f32({1, 3, 8, 8}), f32({5, 5, 3, 5})}, {{"m", int64_t{3}}});  // no such tile
  rejects({f16({1, 3, 8, 8}), f16({4, 4, 3, 5})}, two);                  // no f32
  rejects({f32({1, 3, 8, 8}), f32({4, 4, 3, 5}), f32({4})}, two);        // bias of another size
  rejects({f32({1, 3, 8, 8}), f32({4, 4, 3, 5})}, {{"m", int64_t{2}}, {"strides", Ints{2, 1}}});
  rejects({f32({1, 3, 8, 8}), f32({4, 4, 3, 5})}, {{"m", int64_t{2}}, {"dilations", Ints{1, 2}}});
}

}  // namespace
}  // namespace tw::ops::test
