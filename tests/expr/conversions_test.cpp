#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/data_type.h"
#include "expr/expand.h"
#include "tape.h"

namespace tw {
namespace {

using testing::Tape;

double half_value(DataType type, uint16_t bits) { return type == DataType::f16() ? f16_value(bits) : bf16_value(bits); }
uint16_t half_bits(DataType type, double x) { return type == DataType::f16() ? f16_bits(x) : bf16_bits(x); }

std::vector<uint64_t> run(const Expr& e, const std::vector<uint64_t>& points) {
  visit(e, [](const Expr& x) {
    const auto is_half = [](DataType t) { return t.element() == DataType::f16() || t.element() == DataType::bf16(); };
    EXPECT_FALSE(x.op() == Op::kCast && (is_half(x.type()) || is_half(x.arg(0).type()))) << to_string(x);
  });
  Tape tape(e, {"x"});
  std::vector<uint64_t> results;
  for (size_t begin = 0; begin < points.size(); begin += Tape::kBlock) {
    std::vector<Tape::Block> in(1);
    Tape::Block out;
    const size_t count = std::min(Tape::kBlock, points.size() - begin);
    for (size_t i = 0; i < Tape::kBlock; ++i) in[0][i] = points[begin + std::min(i, count - 1)];
    tape.eval(in, &out);
    results.insert(results.end(), out.begin(), out.begin() + count);
  }
  return results;
}

class Conversions : public ::testing::TestWithParam<ScalarType> {
 protected:
  DataType half() const { return GetParam(); }

  template <typename T>
  void expect_rounds(const std::vector<T>& values, DataType from) {
    std::vector<uint64_t> points;
    for (T x : values) points.push_back(std::bit_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(x));
    const auto results = run(expand_conversions(cast(half(), var("x", from))), points);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto got = static_cast<uint16_t>(results[i]);
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(half_value(half(), got)));
        continue;
      }
      ASSERT_EQ(got, half_bits(half(), values[i])) << values[i];
    }
  }

  // Every half value, the middles between neighbours, and the nearest T on both sides of each.
  template <typename T>
  std::vector<T> rounding_points() {
    std::vector<T> values;
    for (uint32_t b = 0; b < 0x10000; ++b) {
      const double x = half_value(half(), static_cast<uint16_t>(b));
      const double next = half_value(half(), static_cast<uint16_t>(b + 1));
      values.push_back(static_cast<T>(x));
      if (!std::isfinite(x)) continue;
      const T middle = static_cast<T>(std::isfinite(next) ? x + (next - x) / 2 : x);
      for (T y : {static_cast<T>(x), middle}) {
        values.push_back(y);
        values.push_back(std::nextafter(y, T(INFINITY)));
        values.push_back(std::nextafter(y, T(-INFINITY)));
      }
    }
    return values;
  }
};

TEST_P(Conversions, WideningIsExactForAllValues) {
  std::vector<uint64_t> points;
  for (uint64_t b = 0; b < 0x10000; ++b) points.push_back(b);
  const auto f32 = run(expand_conversions(cast(DataType::f32(), var("x", half()))), points);
  const auto f64 = run(expand_conversions(cast(DataType::f64(), var("x", half()))), points);
  for (uint64_t b = 0; b < 0x10000; ++b) {
    const double wanted = half_value(half(), static_cast<uint16_t>(b));
    const double narrow = std::bit_cast<float>(static_cast<uint32_t>(f32[b]));
    const double wide = std::bit_cast<double>(f64[b]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(narrow) && std::isnan(wide)) << b;
    } else {
      ASSERT_EQ(std::bit_cast<uint64_t>(narrow), std::bit_cast<uint64_t>(wanted)) << b;
      ASSERT_EQ(std::bit_cast<uint64_t>(wide), std::bit_cast<uint64_t>(wanted)) << b;
    }
  }
}

TEST_P(Conversions, NarrowingRoundsOnceToNearestEven) {
  auto values = rounding_points<float>();
  std::mt19937_64 random(1);
  for (int k = 0; k < 1000000; ++k) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (float x : {65519.996f, 65520.0f, 65504.0f, 3.4e38f, 0x1.ff8p127f, INFINITY, NAN, -NAN, 0.0f, -0.0f})
    values.push_back(x);
  expect_rounds(values, DataType::f32());
}

TEST_P(Conversions, F64RoundsOnce) {
  auto values = rounding_points<double>();
  std::mt19937_64 random(2);
  for (int k = 0; k < 100000; ++k) {
    values.push_back(std::bit_cast<double>(random()));
    values.push_back(
        std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 300) - 150));
  }
  for (double x : {1e300, -1e300, 1e-300, -1e-300, double(INFINITY), double(NAN), 3.4028235677973366e38})
    values.push_back(x);
  expect_rounds(values, DataType::f64());
}

TEST_P(Conversions, IntegersRoundOnce) {
  std::mt19937_64 random(3);
  std::vector<uint64_t> points;
  for (int k = 0; k < 300000; ++k) {
    const int64_t x = static_cast<int64_t>(random()) >> (random() % 64);
    for (int64_t d : {-1, 0, 1}) points.push_back(static_cast<uint64_t>(x) + static_cast<uint64_t>(d));
  }
  // Next to the middle between two bf16 values, where rounding to f64 first goes wrong.
  for (int64_t base : {(int64_t{1} << 62) + (int64_t{1} << 54), (int64_t{1} << 60) + (int64_t{3} << 52)}) {
    for (int64_t d = -3; d <= 3; ++d) {
      points.push_back(static_cast<uint64_t>(base + d));
      points.push_back(static_cast<uint64_t>(-base + d));
    }
  }
  const auto results = run(expand_conversions(cast(half(), var("x", DataType::i64()))), points);
  for (size_t i = 0; i < points.size(); ++i) {
    // long double holds every i64; to_odd makes the f64 that half_bits takes round like it.
    const long double exact = static_cast<int64_t>(points[i]);
    double nearest = static_cast<double>(exact);
    const uint64_t bits = std::bit_cast<uint64_t>(nearest);
    if (nearest != exact && (bits & 1) == 0)
      nearest = std::bit_cast<double>(bits + (std::fabs(exact) < std::fabs(nearest) ? -1 : 1));
    ASSERT_EQ(static_cast<uint16_t>(results[i]), half_bits(half(), nearest)) << static_cast<int64_t>(points[i]);
  }
}

TEST_P(Conversions, BetweenTheHalfTypes) {
  const DataType other = half() == DataType::f16() ? DataType::bf16() : DataType::f16();
  std::vector<uint64_t> points;
  for (uint64_t b = 0; b < 0x10000; ++b) points.push_back(b);
  const auto results = run(expand_conversions(cast(other, var("x", half()))), points);
  for (uint64_t b = 0; b < 0x10000; ++b) {
    const double x = half_value(half(), static_cast<uint16_t>(b));
    if (std::isnan(x)) continue;
    ASSERT_EQ(static_cast<uint16_t>(results[b]), half_bits(other, x)) << b;
  }
}

TEST_P(Conversions, VectorsKeepTheirLanes) {
  const Expr e = expand_conversions(cast(half(), cast(DataType::f32(), var("x", half().with_lanes(8))) + float_imm(1)));
  EXPECT_EQ(e.type(), half().with_lanes(8));
  visit(e,
        [](const Expr& x) { EXPECT_TRUE(x.type().lanes() == 8 || x.op() == Op::kIntImm || x.op() == Op::kFloatImm); });
}

INSTANTIATE_TEST_SUITE_P(Types, Conversions, ::testing::Values(ScalarType::kF16, ScalarType::kBF16));

}  // namespace
}  // namespace tw
