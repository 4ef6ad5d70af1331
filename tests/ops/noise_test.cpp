// noise_uniform and noise_normal: te against reference, the words that are read, means and deviations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "check.h"
#include "core/philox.h"

namespace tw::ops::test {
namespace {

Case noise(const std::string& op, const TensorType& x, double size, int64_t stream = 0) {
  return {.op = op,
          .inputs = {x, i64({}), i64({})},
          .attrs = {{op == "noise_uniform" ? "span" : "scale", size}, {"stream", stream}},
          .ranges = {{}, {-1e15, 1e15}, {0, 1e6}}};
}

RefTensor number(int64_t value) { return ints(DataType::i64(), {}, {value}); }

// What is added to zeros.
std::vector<double> drawn(const std::string& op, int64_t elements, int64_t seed, int64_t step, int64_t stream = 0) {
  const RefTensor zeros = floats({elements}, std::vector<double>(static_cast<size_t>(elements), 0));
  return run(noise(op, f32({elements}), 1, stream), {zeros, number(seed), number(step)})[0].floats;
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double x : values) m.mean += x / static_cast<double>(values.size());
  for (const double x : values) m.variance += (x - m.mean) * (x - m.mean) / static_cast<double>(values.size());
  return m;
}

TEST(Noise, TeAndReferenceDrawTheSame) {
  for (const std::string op : {"noise_uniform", "noise_normal"}) {
    check(noise(op, f32({7, 13}), 1, 3));
    check(noise(op, f16({5, 3, 2}), 0.5));
    check(noise(op, {DataType::bf16(), {67}}, 2));
    check(noise(op, {DataType::f64(), {2, 3, 5, 7}}, 1));
    check(noise(op, f32({}), 1));
    check(noise(op, f32({0, 3}), 1));
    check({.op = op, .inputs = {f32({4, 5})}});
  }
}

TEST(Noise, UniformReadsAWordForEachElement) {
  const std::vector<double> got = drawn("noise_uniform", 64, 0x1234567890abcdef, 77, 5);
  for (uint32_t e = 0; e < got.size(); ++e) {
    const uint32_t word = philox4x32({e / 4, 0, 77, 5}, {0x90abcdef, 0x12345678}).at(e % 4);
    EXPECT_EQ(got.at(e), (word >> 8) * 0x1p-24 - 0.5) << e;
  }
}

TEST(Noise, HasItsMeanAndVariance) {
  constexpr int64_t kCount = 1 << 16;
  const std::vector<double> uniform = drawn("noise_uniform", kCount, 1, 2),
                            normal = drawn("noise_normal", kCount, 1, 2);
  EXPECT_NEAR(moments(uniform).mean, 0, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(moments(uniform).variance, 1.0 / 12, 0.002);
  EXPECT_NEAR(moments(normal).mean, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(moments(normal).variance, 1, 0.03);
  // Within one deviation, and beyond two: 68.27 and 4.55 %.
  const auto share = [&](auto holds) { return static_cast<double>(std::ranges::count_if(normal, holds)) / kCount; };
  EXPECT_NEAR(share([](double x) { return std::fabs(x) < 1; }), 0.6827, 0.01);
  EXPECT_NEAR(share([](double x) { return std::fabs(x) > 2; }), 0.0455, 0.005);
}

TEST(Noise, DiffersByRunSeedAndStream) {
  const std::vector<double> first = drawn("noise_normal", 16, 1, 1);
  EXPECT_EQ(first, drawn("noise_normal", 16, 1, 1));
  EXPECT_NE(first, drawn("noise_normal", 16, 1, 2));
  EXPECT_NE(first, drawn("noise_normal", 16, 2, 1));
  EXPECT_NE(first, drawn("noise_normal", 16, 1, 1, 1));
}

}  // namespace
}  // namespace tw::ops::test
