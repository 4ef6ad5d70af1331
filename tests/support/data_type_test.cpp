#include "core/data_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace tw {
namespace {

TEST(DataType, NamesRoundTrip) {
  for (int s = 0; s <= static_cast<int>(ScalarType::kF64); ++s) {
    for (int lanes : {1, 2, 3, 16, 64}) {
      const DataType type(static_cast<ScalarType>(s), lanes);
      EXPECT_EQ(parse_data_type(to_string(type)), type) << to_string(type);
    }
  }
  EXPECT_EQ(to_string(DataType::f32().with_lanes(16)), "f32x16");
  EXPECT_EQ(to_string(DataType::boolean()), "bool");
  for (const char* bad : {"", "f31", "F32", "f32x", "f32x1", "f32x0", "f32x-4", "f32x16x2", "x16", "f32 ", "f32x16 "}) {
    EXPECT_FALSE(parse_data_type(bad).has_value()) << bad;
  }
}

TEST(DataType, KnowsItsKindAndSize) {
  EXPECT_EQ(DataType::boolean().bytes(), 1);
  EXPECT_EQ(DataType::bf16().bytes(), 2);
  EXPECT_EQ(DataType::i64().bits(), 64);
  EXPECT_EQ(DataType::f32().with_lanes(8).bits(), 32);
  EXPECT_TRUE(DataType::f16().is_float() && !DataType::f16().is_int());
  EXPECT_TRUE(!DataType::boolean().is_int() && !DataType::boolean().is_float());
  EXPECT_TRUE(DataType(ScalarType::kU8).is_unsigned_int() && !DataType(ScalarType::kU8).is_signed_int());
  EXPECT_TRUE(DataType::i32().is_signed_int() && !DataType::f32().is_signed_int());
}

// The nearest of all finite values of a half type, ties to the even bits: slow and obvious.
uint16_t nearest_bits(double x, double (*value)(uint16_t), uint16_t infinity) {
  const double magnitude = std::fabs(x);
  uint16_t lo = 0;
  uint16_t hi = infinity;  // stands for the number after the largest one
  while (hi - lo > 1) {
    const uint16_t mid = static_cast<uint16_t>((lo + hi) / 2);
    (value(mid) <= magnitude ? lo : hi) = mid;
  }
  const double above = hi == infinity ? 2 * value(infinity - 1) - value(infinity - 2) : value(hi);
  const double to_lo = magnitude - value(lo);
  const double to_hi = above - magnitude;
  const uint16_t bits = to_lo < to_hi || (to_lo == to_hi && lo % 2 == 0) ? lo : hi;
  return bits | (std::signbit(x) ? 0x8000 : 0);
}

TEST(HalfTypes, ValuesRoundTrip) {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    EXPECT_TRUE(std::isnan(f16_value(bits)) || f16_bits(f16_value(bits)) == bits) << bits;
    EXPECT_TRUE(std::isnan(bf16_value(bits)) || bf16_bits(bf16_value(bits)) == bits) << bits;
  }
  EXPECT_EQ(f16_value(0x3c00), 1.0);
  EXPECT_EQ(f16_value(0x0001), 0x1p-24);
  EXPECT_EQ(f16_value(0x7bff), 65504.0);
  EXPECT_EQ(bf16_value(0x3f80), 1.0);
  EXPECT_EQ(bf16_value(0x0001), 0x1p-133);
  EXPECT_TRUE(std::isinf(f16_value(0x7c00)) && std::isinf(bf16_value(0xff80)));
  EXPECT_TRUE(std::isnan(f16_value(f16_bits(NAN))) && std::isnan(bf16_value(bf16_bits(-NAN))));
  EXPECT_TRUE(std::signbit(f16_value(0x8000)) && std::signbit(bf16_value(0x8000)));
}

TEST(HalfTypes, RoundToNearestEven) {
  std::mt19937_64 random(1);
  std::vector<double> values = {65519.99,     65520.0,  65536.0,     0x1p-25,       0x1.8p-24,  0x1.000001p-25,
                                1e-30,        1e300,    1 + 0x1p-11, 1 + 0x1.8p-10, 1 + 0x1p-8, 3.4e38,
                                3.3961776e38, 0x1p-134, 0x1.8p-133,  INFINITY,      0.0};
  for (int k = 0; k < 200000; ++k) {
    values.push_back(
        std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 50) - 30));
    values.push_back(
        std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 280) - 142));
  }
  for (double x : values) {
    for (double y : {x, -x}) {
      ASSERT_EQ(f16_bits(y), nearest_bits(y, f16_value, 0x7c00)) << y;
      ASSERT_EQ(bf16_bits(y), nearest_bits(y, bf16_value, 0x7f80)) << y;
    }
  }
}

}  // namespace
}  // namespace tw
