// dropout: te against reference, which elements stay, and how many.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "check.h"
#include "core/philox.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

Case dropout(const TensorType& x, double ratio, int64_t stream = 0, int64_t seed = 0) {
  return {.op = "dropout",
          .inputs = {x, i64({}), i64({})},
          .attrs = {{"ratio", ratio}, {"stream", stream}, {"seed", seed}},
          .ranges = {{}, {-1e15, 1e15}, {0, 1e6}}};
}

RefTensor number(int64_t value) { return ints(DataType::i64(), {}, {value}); }

// What is left of ones: element by element kept or not.
std::vector<bool> kept(int64_t elements, double ratio, int64_t seed, int64_t step, int64_t stream) {
  const RefTensor ones = floats({elements}, std::vector<double>(static_cast<size_t>(elements), 1));
  const RefTensor y = run(dropout(f32({elements}), ratio, stream), {ones, number(seed), number(step)})[0];
  std::vector<bool> out;
  for (const double x : y.floats) {
    EXPECT_TRUE(x == 0 || std::fabs(x - 1 / (1 - ratio)) < 1e-6) << x;
    out.push_back(x != 0);
  }
  return out;
}

TEST(Dropout, TeAndReferenceKeepTheSame) {
  for (const double ratio : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    check(dropout(f32({7, 13}), ratio, 3));
    check(dropout(f16({5, 3, 2}), ratio, 1, -4));
  }
  check(dropout(f32({}), 0.5));
  check(dropout(f32({0, 3}), 0.5));
  check(dropout({DataType::f64(), {2, 3, 5, 7}}, 0.3));
  check(dropout({DataType::bf16(), {67}}, 0.3));
  check({.op = "dropout", .inputs = {f32({4, 5})}, .attrs = {{"ratio", 0.5}}});
}

// Seed, step and stream as words of key and counter: by the published answer for counter and key of zeros, and those of
// others by the generator itself.
TEST(Dropout, ReadsWordsOfItsCounter) {
  constexpr double kRatio = 0.5;
  const auto first = kept(8, kRatio, 0, 0, 0);
  EXPECT_EQ(first, (std::vector<bool>{true, true, true, true, false, true, true, true}))
      << "6627e8d5 e169c58d bc57ac4c 9b00dbd8: the lower halves, then the upper ones";
  const int64_t seed = 0x1234567890abcdef;
  const auto got = kept(4096, 0.25, seed, 77, 5);
  for (uint32_t e = 0; e < 4096; ++e) {
    const uint32_t word = philox4x32({e / 8, 0, 77, 5}, {0x90abcdef, 0x12345678}).at(e % 4);
    ASSERT_EQ(got.at(e), (e % 8 < 4 ? word & 0xffff : word >> 16) >= 0x4000) << e;
  }
}

TEST(Dropout, SeedsStepsAndStreamsDiffer) {
  const auto base = kept(256, 0.5, 1, 0, 0);
  EXPECT_EQ(base, kept(256, 0.5, 1, 0, 0));
  EXPECT_NE(base, kept(256, 0.5, 2, 0, 0));
  EXPECT_NE(base, kept(256, 0.5, int64_t{1} + (int64_t{1} << 32), 0, 0));
  EXPECT_NE(base, kept(256, 0.5, 1, 1, 0));
  EXPECT_NE(base, kept(256, 0.5, 1, 0, 1));
}

// The share that stays is binomial: within five standard deviations, of all elements and of each residue modulo 8.
TEST(Dropout, TheKeptShareIsThatOfTheRatio) {
  constexpr int64_t kElements = 40000;
  for (const double ratio : {0.05, 0.3, 0.5, 0.8}) {
    const auto all = kept(kElements, ratio, 11, 3, 2);
    for (const size_t stride : {1, 8}) {
      for (size_t first = 0; first < stride; ++first) {
        double count = 0, total = 0;
        for (size_t i = first; i < all.size(); i += stride, ++total) count += all[i] ? 1 : 0;
        EXPECT_NEAR(count / total, 1 - ratio, 5 * std::sqrt(ratio * (1 - ratio) / total)) << ratio << " " << first;
      }
    }
  }
}

// What dropout keeps, as bits: of elements that fill whole words, and of some more.
TEST(Dropout, BitsSayWhatIsKept) {
  constexpr int64_t kSeed = 77, kStep = 5;
  for (const int64_t elements : {1, 64, 100}) {
    const Case bits = {.op = "dropout_bits",
                       .inputs = {i64({}), i64({})},
                       .attrs = {{"ratio", 0.3}, {"stream", int64_t{2}}, {"elements", elements}}};
    const RefTensor words = run(bits, {number(kSeed), number(kStep)})[0];
    const auto all = kept(elements, 0.3, kSeed, kStep, 2);
    for (int64_t e = 0; e < elements; ++e) ASSERT_EQ(words.ints[e / 32] >> e % 32 & 1, all[e] ? 1 : 0) << e;
    const RefTensor ones = floats({elements}, std::vector<double>(static_cast<size_t>(elements), 1));
    const Case by_bits = {.op = "dropout_by_bits", .inputs = {f32({elements}), words.type}, .attrs = {{"ratio", 0.3}}};
    const RefTensor y = run(by_bits, {ones, words})[0];
    for (int64_t e = 0; e < elements; ++e) ASSERT_EQ(y.floats[e] != 0, all[e]) << e;
  }
  check({.op = "dropout_by_bits",
         .inputs = {f16({5, 9}), i32({2})},
         .attrs = {{"ratio", 0.5}},
         .ranges = {{}, {-2e9, 2e9}}});
  EXPECT_THROW(single({.op = "dropout_by_bits", .inputs = {f32({33}), i32({1})}, .attrs = {{"ratio", 0.5}}}),
               UserError);
}

TEST(Dropout, WhatDoesNotFitIsNamed) {
  EXPECT_THROW(single(dropout(f32({3}), 1.5)), UserError);
  EXPECT_THROW(single(dropout(f32({3}), -0.5)), UserError);
  EXPECT_THROW(single(dropout(i32({3}), 0.5)), UserError);
  EXPECT_THROW(single({.op = "dropout", .inputs = {f32({3}), i64({})}, .attrs = {{"ratio", 0.5}}}), UserError);
  EXPECT_THROW(single({.op = "dropout", .inputs = {f32({3}), i64({}), i32({})}, .attrs = {{"ratio", 0.5}}}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
