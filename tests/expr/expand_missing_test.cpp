#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "expr/expand.h"
#include "tape.h"

namespace tw {
namespace {

using testing::Tape;

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Values of e at points x[i], y[i], z[i].
template <typename T>
std::vector<T> evaluate(const Expr& e, const std::vector<std::array<T, 3>>& points) {
  Tape tape(e, {"x", "y", "z"});
  std::vector<T> values;
  for (size_t begin = 0; begin < points.size(); begin += Tape::kBlock) {
    const size_t count = std::min(Tape::kBlock, points.size() - begin);
    std::vector<Tape::Block> in(3);
    Tape::Block out;
    for (size_t i = 0; i < Tape::kBlock; ++i) {
      for (size_t k = 0; k < 3; ++k) in[k][i] = std::bit_cast<BitsOf<T>>(points[begin + std::min(i, count - 1)][k]);
    }
    tape.eval(in, &out);
    for (size_t i = 0; i < count; ++i) values.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(out[i])));
  }
  return values;
}

template <typename T>
DataType type_of() {
  return sizeof(T) == 4 ? DataType::f32() : DataType::f64();
}

constexpr Instructions kNone{false, false};

// Every exponent, with fractions near halves and special values.
template <typename T>
std::vector<std::array<T, 3>> roundable() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> xs = {0, Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::denorm_min(), T(0.5)};
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    xs.push_back(std::ldexp(T(random() % 4096) / 8, static_cast<int>(random() % 80) - 20));
    xs.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(random())));
    const T whole = static_cast<T>(random() % 100'000);
    for (const T half : {std::nextafter(T(0.5), T(0)), T(0.5), std::nextafter(T(0.5), T(1))})
      xs.push_back(whole + half);
  }
  std::vector<std::array<T, 3>> points;
  for (const T x : xs) points.push_back({x, 0, 0}), points.push_back({-x, 0, 0});
  return points;
}

template <typename T>
void expect_same_rounding(Op op, T (*reference)(T)) {
  const auto points = roundable<T>();
  const Expr e = expand_missing(unary(op, var("x", type_of<T>())), kNone);
  const std::vector<T> got = evaluate<T>(e, points);
  for (size_t i = 0; i < points.size(); ++i) {
    const T want = reference(points[i][0]);
    const bool same =
        std::isnan(want) ? std::isnan(got[i]) : got[i] == want && std::signbit(got[i]) == std::signbit(want);
    ASSERT_TRUE(same) << points[i][0] << ": " << got[i] << ", not " << want;
  }
}

TEST(ExpandMissing, RoundingsAreExact) {
  expect_same_rounding<float>(Op::kFloor, std::floor);
  expect_same_rounding<float>(Op::kCeil, std::ceil);
  expect_same_rounding<float>(Op::kTrunc, std::trunc);
  expect_same_rounding<float>(Op::kRound, std::nearbyint);
  expect_same_rounding<double>(Op::kFloor, std::floor);
  expect_same_rounding<double>(Op::kCeil, std::ceil);
  expect_same_rounding<double>(Op::kTrunc, std::trunc);
  expect_same_rounding<double>(Op::kRound, std::nearbyint);
}

template <typename T>
Expr fused() {
  const DataType type = type_of<T>();
  return expand_missing(fma(var("x", type), var("y", type), var("z", type)), kNone);
}

// x * y + z with sums that cancel, whole or in part, and with special values.
template <typename T>
std::vector<std::array<T, 3>> products() {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<T> of(-2, 2);
  std::vector<std::array<T, 3>> points;
  const T inf = std::numeric_limits<T>::infinity();
  for (const T x : {T(0), T(1), inf, -inf}) {
    for (const T y : {T(0), T(3), -inf}) points.push_back({x, y, T(2)}), points.push_back({x, y, inf});
  }
  for (int i = 0; i < 100'000; ++i) {
    const T x = of(random), y = of(random);
    points.push_back({x, y, of(random)});
    points.push_back({x, y, -x * y});
    points.push_back({x, y, -x * y * (1 + std::ldexp(of(random), -20))});
  }
  return points;
}

template <typename T>
void expect_close_fma() {
  const auto points = products<T>();
  const std::vector<T> got = evaluate<T>(fused<T>(), points);
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [x, y, z] = points[i];
    const T want = std::fma(x, y, z);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got[i]));
      continue;
    }
    const T next = std::nextafter(std::fabs(want), std::numeric_limits<T>::infinity());
    const T ulp = std::isinf(want) ? 0 : next - std::fabs(want);
    ASSERT_TRUE(got[i] == want || std::fabs(got[i] - want) <= ulp) << x << " * " << y << " + " << z;
    // The error of a product needs no rounding.
    if (z == -(x * y)) {
      ASSERT_EQ(got[i], want) << x << " * " << y;
    }
  }
}

TEST(ExpandMissing, FusedMultiplyAddsKeepTheErrorOfTheProduct) { expect_close_fma<float>(); }

TEST(ExpandMissing, WhatTheTargetHasStays) {
  const Expr x = var("x", DataType::f32());
  const Expr e = unary(Op::kFloor, fma(x, x, x));
  EXPECT_EQ(to_string(expand_missing(e, {})), to_string(e));
  EXPECT_EQ(to_string(expand_missing(e, {true, true})), to_string(e));
  const Expr y = var("y", DataType::f64());
  EXPECT_EQ(to_string(expand_missing(fma(y, y, y), kNone)), to_string(fma(y, y, y)));
  EXPECT_EQ(to_string(split_fma(fma(x, x, x))), to_string(x * x + x));
}

}  // namespace
}  // namespace tw
