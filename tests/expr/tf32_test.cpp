// Rounding to tf32: the expression, the numbers, and that both agree.
#include "expr/tf32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tape.h"

namespace tw {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

float evaluated(float x) {
  testing::Tape tape(to_tf32(var("x", DataType::f32())), {"x"});
  std::vector<testing::Tape::Block> in(1);
  testing::Tape::Block out;
  in[0].fill(std::bit_cast<uint32_t>(x));
  tape.eval(in, &out);
  return std::bit_cast<float>(static_cast<uint32_t>(out[0]));
}

TEST(Tf32, DropsTheLastBits) {
  const std::pair<float, float> points[] = {{1, 1},
                                            {1 + 0x1p-10f, 1 + 0x1p-10f},
                                            {1 + 0x1.8p-10f, 1 + 0x1p-10f},
                                            {-1 - 0x1.fffp-10f, -1 - 0x1p-10f},
                                            {2048.9F, 2048},
                                            {0, 0},
                                            {0x1p-140f, 0x1p-140f - 0x1p-140f},
                                            {kInf, kInf},
                                            {-kInf, -kInf},
                                            {kLargest, 0x1.ffcp127f}};
  for (const auto& [x, rounded] : points) {
    EXPECT_EQ(evaluated(x), rounded) << x;
    EXPECT_EQ(to_tf32(x), rounded) << x;
  }
  EXPECT_TRUE(std::isnan(evaluated(std::nanf(""))));
  EXPECT_TRUE(std::isnan(to_tf32(std::nanf(""))));
}

TEST(Tf32, TheNearestIsLeftAsItIs) {
  const std::pair<float, float> points[] = {{1, 1},
                                            {1 + 0x1p-11f, 1 + 0x1p-10f},
                                            {-1 - 0x1p-11f, -1 - 0x1p-10f},
                                            {1 + 0x1.fp-12f, 1},
                                            {2 - 0x1p-12f, 2},
                                            {kInf, kInf},
                                            {kLargest, kLargest}};
  for (const auto& [x, nearest] : points) EXPECT_EQ(nearest_tf32(x), nearest) << x;
  for (const float x : {0.1F, -3.7F, 1e-20F, 6.02e23F}) {
    const float nearest = nearest_tf32(x);
    EXPECT_EQ(to_tf32(nearest), nearest);
    EXPECT_LE(std::fabs(nearest - x), std::fabs(x) * 0x1p-11f);
  }
  EXPECT_TRUE(std::isnan(nearest_tf32(std::nanf(""))));
}

TEST(Tf32, IsRecognised) {
  const Expr x = load("x", DataType::f32(), {var("i")});
  const Expr rounded = to_tf32(x);
  ASSERT_NE(tf32_operand(rounded), nullptr);
  EXPECT_TRUE(tf32_operand(rounded)->same(x));
  EXPECT_TRUE(rounds_to_tf32(select(var("i") < Expr(3), rounded, float_imm(0))));
  for (const Expr& other : {x, rounded + x, bitcast(DataType::f32(), bitcast(DataType::i32(), x)), to_tf32(x) * x}) {
    EXPECT_EQ(tf32_operand(other), nullptr);
    EXPECT_FALSE(rounds_to_tf32(other));
  }
}

}  // namespace
}  // namespace tw
