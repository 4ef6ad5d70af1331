// The arithmetic of one lane: rounding, wrapping, conversions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/harness/lane_words.h"

namespace tw {
namespace {

using enum ScalarType;
const double kNan = std::nan("");

double f(Op op, ScalarType type, double a, double b) { return apply_binary(op, type, float_word(a), float_word(b)).f; }
int64_t i(Op op, ScalarType type, int64_t a, int64_t b) { return apply_binary(op, type, int_word(a), int_word(b)).i; }
int64_t to_int(ScalarType to, double x) { return apply_cast(to, kF32, float_word(x)).i; }

TEST(Arithmetic, FloatsRoundToTheirType) {
  EXPECT_EQ(f(Op::kAdd, kF32, 16777216, 1), 16777216) << "2^24 + 1 is a tie: to even";
  EXPECT_EQ(f(Op::kAdd, kF64, 16777216, 1), 16777217);
  EXPECT_EQ(f(Op::kAdd, kF16, 2048, 1), 2048);
  EXPECT_EQ(f(Op::kAdd, kF16, 2048, 3), 2052);
  EXPECT_EQ(f(Op::kAdd, kBF16, 256, 1), 256);
  EXPECT_EQ(f(Op::kMul, kF16, 65504, 2), INFINITY);
  EXPECT_EQ(f(Op::kDiv, kF32, 1, 3), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(f(Op::kDiv, kF32, 1, 0), INFINITY);
}

TEST(Arithmetic, MinAndMaxGiveNanWhenEitherSideIs) {
  for (Op op : {Op::kMin, Op::kMax}) {
    EXPECT_TRUE(std::isnan(f(op, kF32, kNan, 1)));
    EXPECT_TRUE(std::isnan(f(op, kF32, 1, kNan)));
  }
  EXPECT_EQ(f(Op::kMin, kF32, -1, 2), -1);
  EXPECT_EQ(f(Op::kMax, kF32, -1, 2), 2);
}

TEST(Arithmetic, ComparisonsWithNan) {
  const auto compare = [](Op op) { return apply_binary(op, kF32, float_word(kNan), float_word(1)).i; };
  EXPECT_EQ(compare(Op::kEq), 0);
  EXPECT_EQ(compare(Op::kNe), 1);
  EXPECT_EQ(compare(Op::kLt), 0);
  EXPECT_EQ(compare(Op::kLe), 0);
}

TEST(Arithmetic, IntegersWrap) {
  EXPECT_EQ(i(Op::kAdd, kI8, 127, 1), -128);
  EXPECT_EQ(i(Op::kAdd, kU8, 255, 1), 0);
  EXPECT_EQ(i(Op::kSub, kU32, 0, 1), 4294967295);
  EXPECT_EQ(i(Op::kMul, kI32, 65536, 65536), 0);
  EXPECT_EQ(i(Op::kAdd, kI64, INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(i(Op::kDiv, kI64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(i(Op::kDiv, kI8, -128, -1), -128);
  EXPECT_EQ(i(Op::kFloorMod, kI64, INT64_MIN, -1), 0);
  EXPECT_EQ(apply_unary(Op::kNeg, kI16, int_word(-32768)).i, -32768);
  EXPECT_EQ(apply_unary(Op::kAbs, kI8, int_word(-128)).i, -128);
  EXPECT_EQ(apply_unary(Op::kNot, kU8, int_word(1)).i, 254);
  EXPECT_EQ(apply_unary(Op::kNot, kBool, int_word(1)).i, 0);
}

TEST(Arithmetic, Divisions) {
  EXPECT_EQ(i(Op::kDiv, kI32, -7, 2), -3);
  EXPECT_EQ(i(Op::kFloorDiv, kI32, -7, 2), -4);
  EXPECT_EQ(i(Op::kFloorMod, kI32, -7, 2), 1);
  EXPECT_EQ(i(Op::kFloorMod, kI32, 7, -2), -1);
  EXPECT_EQ(i(Op::kDiv, kU64, -2, 2), INT64_MAX) << "2^64 - 2 halved";
}

TEST(Arithmetic, SignednessOfComparisonsAndShifts) {
  EXPECT_EQ(i(Op::kLt, kI64, -1, 1), 1);
  EXPECT_EQ(i(Op::kLt, kU64, -1, 1), 0);
  EXPECT_EQ(i(Op::kMax, kU64, -1, 1), -1);
  EXPECT_EQ(i(Op::kShiftRight, kI32, -8, 1), -4);
  EXPECT_EQ(i(Op::kShiftRight, kU64, -1, 63), 1);
  EXPECT_EQ(i(Op::kShiftLeft, kI8, 64, 1), -128);
}

TEST(Arithmetic, UndefinedOperands) {
  EXPECT_STREQ(undefined_reason(Op::kFloorMod, kI32, int_word(0)), "integer division by zero");
  EXPECT_STREQ(undefined_reason(Op::kShiftLeft, kI8, int_word(8)), "shift by the width of the type or more");
  EXPECT_EQ(undefined_reason(Op::kShiftLeft, kI8, int_word(7)), nullptr);
  EXPECT_EQ(undefined_reason(Op::kDiv, kF32, float_word(0)), nullptr);
  EXPECT_EQ(undefined_reason(Op::kAdd, kI32, int_word(0)), nullptr);
}

TEST(Arithmetic, RoundingOperations) {
  const auto unary = [](Op op, double x) { return apply_unary(op, kF32, float_word(x)).f; };
  EXPECT_EQ(unary(Op::kRound, 2.5), 2);
  EXPECT_EQ(unary(Op::kRound, 3.5), 4);
  EXPECT_EQ(unary(Op::kFloor, -1.5), -2);
  EXPECT_EQ(unary(Op::kCeil, -1.5), -1);
  EXPECT_EQ(unary(Op::kTrunc, -1.5), -1);
  EXPECT_EQ(unary(Op::kAbs, -1.5), 1.5);
  EXPECT_TRUE(std::signbit(unary(Op::kNeg, 0.0)));
}

TEST(Arithmetic, CastsFromFloatTruncateAndSaturate) {
  EXPECT_EQ(to_int(kI32, -1.9), -1);
  EXPECT_EQ(to_int(kI8, 200), 127);
  EXPECT_EQ(to_int(kI8, -200), -128);
  EXPECT_EQ(to_int(kU8, -3), 0);
  EXPECT_EQ(to_int(kU8, 300), 255);
  EXPECT_EQ(to_int(kI64, 1e30), INT64_MAX);
  EXPECT_EQ(to_int(kI64, -INFINITY), INT64_MIN);
  EXPECT_EQ(to_int(kU64, 1e30), -1);
  EXPECT_EQ(to_int(kU64, 0x1p63), INT64_MIN);
  EXPECT_EQ(to_int(kI32, kNan), 0);
  EXPECT_EQ(to_int(kU64, kNan), 0);
  EXPECT_EQ(to_int(kBool, 0.5), 1);
  EXPECT_EQ(to_int(kBool, -0.0), 0);
  EXPECT_EQ(to_int(kBool, kNan), 1);
}

TEST(Arithmetic, CastsBetweenIntegersAndToFloat) {
  EXPECT_EQ(apply_cast(kI8, kI32, int_word(200)).i, -56);
  EXPECT_EQ(apply_cast(kBool, kI32, int_word(256)).i, 1);
  EXPECT_EQ(apply_cast(kF64, kU64, int_word(-1)).f, 0x1p64);
  EXPECT_EQ(apply_cast(kF16, kF64, float_word(1 + 0x1p-11)).f, 1) << "a tie";
  // 2^62 + 2^38 is a tie of f32; one more unit decides it, and rounding to double in between would lose that unit.
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 38);
  EXPECT_EQ(apply_cast(kF32, kI64, int_word(tie)).f, 0x1p62);
  EXPECT_EQ(apply_cast(kF32, kI64, int_word(tie + 1)).f, 0x1p62 + 0x1p39);
  EXPECT_EQ(apply_cast(kF32, kI64, int_word(-tie - 1)).f, -0x1p62 - 0x1p39);
}

TEST(Arithmetic, Bitcasts) {
  EXPECT_EQ(apply_bitcast(kI32, kF32, float_word(1)).i, 0x3f800000);
  EXPECT_EQ(apply_bitcast(kU32, kF32, float_word(-1)).i, 0xbf800000);
  EXPECT_EQ(apply_bitcast(kF32, kI32, int_word(static_cast<int32_t>(0xc0000000))).f, -2);
  EXPECT_EQ(apply_bitcast(kU16, kF16, float_word(1)).i, 0x3c00);
  EXPECT_EQ(apply_bitcast(kBF16, kI16, int_word(0x3f80)).f, 1);
  EXPECT_EQ(apply_bitcast(kI64, kF64, float_word(1)).i, 0x3ff0000000000000);
  EXPECT_EQ(apply_bitcast(kF64, kU64, int_word(0x4000000000000000)).f, 2);
  EXPECT_EQ(apply_bitcast(kI8, kU8, int_word(255)).i, -1);
}

TEST(Arithmetic, FmaRoundsOnce) {
  const double a = 1 + 0x1p-23;  // f32
  EXPECT_EQ(apply_fma(kF32, float_word(a), float_word(a), float_word(-1 - 0x1p-22)).f, 0x1p-46);
  // f16: 2049 * 1 needs 12 bits: a tie, which the small addend decides; double cannot hold 2049 + 2^-60.
  const Word tie = float_word(3 * 683.0);
  EXPECT_EQ(apply_fma(kBF16, float_word(257.0 / 257), float_word(1), float_word(0x1p-8)).f, 1) << "a tie";
  EXPECT_EQ(apply_fma(kF16, tie, float_word(1), float_word(0)).f, 2048);
  EXPECT_EQ(apply_fma(kF16, tie, float_word(1), float_word(0x1p-24)).f, 2050);
  EXPECT_EQ(apply_fma(kBF16, float_word(1), float_word(1 + 0x1p-8), float_word(0x1p-100)).f, 1 + 0x1p-7);
  EXPECT_EQ(apply_fma(kBF16, float_word(1), float_word(1 + 0x1p-8), float_word(-0x1p-100)).f, 1);
  EXPECT_TRUE(std::isnan(apply_fma(kF32, float_word(INFINITY), float_word(0), float_word(1)).f));
  std::mt19937 random(7);
  for (int n = 0; n < 200000; ++n) {
    // Random bits cover all exponents, subnormals, infinities and NaN.
    float x[3];
    for (float& value : x) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (n % 2) x[2] = -x[0] * x[1] * (1 + 0x1p-20f);  // cancellation
    const float expected = std::fma(x[0], x[1], x[2]);
    const double found = apply_fma(kF32, float_word(x[0]), float_word(x[1]), float_word(x[2])).f;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found));
    } else {
      EXPECT_EQ(found, expected) << x[0] << " " << x[1] << " " << x[2];
    }
  }
}

TEST(Arithmetic, ReductionsCombineHalves) {
  // (1e8 + -1e8) + (1 + 1), not ((1e8 + 1) + -1e8) + 1.
  Word even[] = {float_word(1e8), float_word(1), float_word(-1e8), float_word(1)};
  EXPECT_EQ(apply_reduce(Op::kReduceAdd, kF32, even, 4).f, 2);
  Word odd[] = {int_word(3), int_word(1), int_word(5), int_word(2), int_word(4)};
  EXPECT_EQ(apply_reduce(Op::kReduceMul, kI32, odd, 5).i, 120);
  Word min[] = {float_word(3), float_word(kNan), float_word(1)};
  EXPECT_TRUE(std::isnan(apply_reduce(Op::kReduceMin, kF32, min, 3).f));
  Word bits[] = {int_word(1), int_word(0)};
  EXPECT_EQ(apply_reduce(Op::kReduceOr, kBool, bits, 2).i, 1);
}

}  // namespace
}  // namespace tw
