// Where functions are exact, or meet the ends of their formats: remainders, powers that are roots, angles of any size.
#include <gtest/gtest.h>

#include <numbers>
#include <random>

#include "expansion_check.h"

namespace tw {
namespace {

using namespace testing;

// Neighbours of multiples of pi/2 of every size, and the f64 that comes nearest to one of all.
TEST(ElementaryF64, SineReducesHugeArguments) {
  std::mt19937_64 random(6);
  std::vector<std::array<double, 2>> points;
  const auto add = [&](double x) {
    points.push_back({x, 0});
    points.push_back({-x, 0});
  };
  for (double x :
       {6381956970095103.0 * 0x1p797, 0x1p50, 0x1.0000000000001p50, 1e16, 1e22, 1e300, 0x1.fffffffffffffp1023})
    add(x);
  for (int exponent = 40; exponent < 1023; ++exponent) {
    const long double n = std::ldexp(1.0L + static_cast<long double>(random() >> 1) * 0x1p-63L, exponent);
    const auto near = static_cast<double>(n * std::numbers::pi_v<long double>);
    for (double x : {std::nextafter(near, 0.0), near, std::nextafter(near, kInf)}) add(x);
  }
  for (const char* name : {"sin", "cos", "tan"}) {
    const Worst worst = worst_error<double, long double>(expanded(name, 1, DataType::f64()), points,
                                                         [&](const auto& p) { return long_reference(name, p[0]); });
    std::printf("%-9s %.3f ulp at %a (%g)\n", name, worst.ulp, worst.at[0], worst.at[0]);
    EXPECT_LE(worst.ulp, 8) << name << "(" << worst.at[0] << ") = " << worst.got << ", exact " << worst.wanted;
  }
}

// Quotients of every size: what is left is exact, below the divisor, and has the sign of the dividend.
template <typename T>
void expect_exact_remainders() {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(7);
  std::vector<std::array<T, 2>> points;
  for (T x : special_values<T>()) {
    for (T y : special_values<T>()) points.push_back({x, y});
  }
  const auto any = [&] { return std::bit_cast<T>(static_cast<Bits>(random())); };
  for (int k = 0; k < 200000; ++k) {
    points.push_back({any(), any()});
    const T y = any();
    points.push_back({static_cast<T>(static_cast<int>(random() % 2001) - 1000) * y, y});
    points.push_back({std::nextafter(static_cast<T>(random() % 1000000) * y, T(0)), y});
  }
  for (int k = 0; k < 100; ++k) {
    points.push_back({Limits::max(), std::ldexp(T(1) + static_cast<T>(k) / 128, Limits::min_exponent - 1)});
    points.push_back({any(), Limits::denorm_min() * static_cast<T>(2 * k + 1)});
  }
  const DataType type = sizeof(T) == 4 ? DataType::f32() : DataType::f64();
  const Worst worst =
      worst_error<T, T>(expanded("fmod", 2, type), points, [](const auto& p) { return std::fmod(p[0], p[1]); });
  EXPECT_EQ(worst.ulp, 0) << "fmod(" << worst.at[0] << ", " << worst.at[1] << ") = " << worst.got << ", exact "
                          << worst.wanted;
}

TEST(Remainder, IsExactInF32) { expect_exact_remainders<float>(); }
TEST(Remainder, IsExactInF64) { expect_exact_remainders<double>(); }

// IEEE 754: the power is +0 and +inf where the square root is -0 and NaN.
TEST(Power, OneHalfIsNoSquareRootOfMinusZeroAndMinusInfinity) {
  for (const DataType type : {DataType::f32(), DataType::f64(), DataType::f32().with_lanes(4)}) {
    const Expr e = expand_elementary(call("pow", {var("x", type), imm(type, 0.5)}));
    EXPECT_LT(Tape(e, {"x"}).steps(), 15U) << "a root is enough";
    const auto at = [&](double x) {
      std::vector<Tape::Block> in(1);
      Tape::Block out;
      in[0].fill(type.bits() == 32 ? std::bit_cast<uint32_t>(static_cast<float>(x)) : std::bit_cast<uint64_t>(x));
      Tape(e, {"x"}).eval(in, &out);
      return type.bits() == 32 ? std::bit_cast<float>(static_cast<uint32_t>(out[0])) : std::bit_cast<double>(out[0]);
    };
    EXPECT_EQ(at(-kInf), kInf);
    EXPECT_EQ(at(kInf), kInf);
    EXPECT_FALSE(std::signbit(at(-0.0)));
    EXPECT_TRUE(std::isnan(at(-1)));
    EXPECT_EQ(at(2.25), 1.5);
  }
}

}  // namespace
}  // namespace tw
