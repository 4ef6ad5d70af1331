// Words of neighbours along a summed axis, and products of them.
#include <gtest/gtest.h>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

constexpr Range kBytes{0, 255}, kSigned{-128, 127}, kAny{-2147483648.0, 2147483647.0};

Attrs pairs(Attrs more) {
  more["words"] = std::string("pairs");
  return more;
}

Attrs quads(const char* side, Attrs more) {
  more["words"] = std::string("quads");
  more["side"] = std::string(side);
  return more;
}

TEST(PackWords, PairsLessTheirZeroPoints) {
  const Attrs last = pairs({{"axis", int64_t{1}}});
  const Attrs last_rows = pairs({{"axis", int64_t{1}}, {"zero_axis", int64_t{0}}});
  const Attrs first = pairs({{"axis", int64_t{0}}, {"zero_axis", int64_t{1}}});
  check({.op = "pack_words", .inputs = {u8({3, 6})}, .attrs = last, .ranges = {kBytes}});
  check({.op = "pack_words", .inputs = {u8({3, 5}), u8({})}, .attrs = last, .ranges = {kBytes}});
  check({.op = "pack_words", .inputs = {u8({3, 5}), u8({1})}, .attrs = last, .ranges = {kBytes}});
  check({.op = "pack_words", .inputs = {i8({5, 7}), i8({7})}, .attrs = first, .ranges = {kSigned}});
  check({.op = "pack_words", .inputs = {u8({3, 5}), u8({3})}, .attrs = last_rows, .ranges = {kBytes}});
  check({.op = "pack_words", .inputs = {u8({2, 3, 5, 2}), u8({2})}, .attrs = last_rows, .ranges = {kBytes}});
  EXPECT_THROW(single({.op = "pack_words", .inputs = {u8({3, 5}), u8({2})}, .attrs = last}), UserError);
  EXPECT_THROW(single({.op = "pack_words", .inputs = {i32({3, 5})}, .attrs = last}), UserError);
  EXPECT_THROW(single({.op = "pack_words",
                       .inputs = {u8({3, 5})},
                       .attrs = {{"axis", int64_t{1}}, {"words", std::string("none")}}}),
               UserError);
}

TEST(PackWords, QuadsOfEitherSide) {
  for (const char* side : {"left", "right"}) {
    for (const int64_t extent : {1, 3, 4, 5, 6, 7, 8}) {
      const Attrs last = quads(side, {{"axis", int64_t{1}}});
      check({.op = "pack_words", .inputs = {u8({3, extent})}, .attrs = last, .ranges = {kBytes}});
      check({.op = "pack_words", .inputs = {i8({3, extent, 2})}, .attrs = last, .ranges = {kSigned}});
    }
  }
  const Attrs last = quads("left", {{"axis", int64_t{1}}});
  EXPECT_THROW(single({.op = "pack_words", .inputs = {u8({3, 5}), u8({})}, .attrs = last}), UserError);
  EXPECT_THROW(single({.op = "pack_words", .inputs = {u8({3, 5})}, .attrs = quads("both", {{"axis", int64_t{1}}})}),
               UserError);
}

TEST(PackWords, FloatsAreRoundedToBf16) {
  const Attrs bf16{{"axis", int64_t{0}}, {"words", std::string("bf16")}};
  for (const DataType type : {DataType::bf16(), DataType::f32()}) {
    for (const int64_t extent : {1, 2, 5}) check({.op = "pack_words", .inputs = {{type, {extent, 3}}}, .attrs = bf16});
  }
  // 1 + 2^-8 is a tie and goes to the even 1, 1 + 3 * 2^-8 to 1 + 2^-6.
  EXPECT_EQ(
      run({.op = "pack_words", .inputs = {f32({2})}, .attrs = bf16}, {floats({2}, {1.00390625, 1.01171875})})[0].ints,
      (std::vector<int64_t>{0x3f823f80}));
  EXPECT_THROW(single({.op = "pack_words", .inputs = {u8({2})}, .attrs = bf16}), UserError);
  EXPECT_THROW(single({.op = "pack_words", .inputs = {f32({2}), f32({})}, .attrs = bf16}), UserError);
}

TEST(PackWords, NeighboursLowFirst) {
  const Case pack{.op = "pack_words", .inputs = {u8({1, 3}), u8({})}, .attrs = pairs({{"axis", int64_t{1}}})};
  EXPECT_EQ(run(pack, {ints({ScalarType::kU8}, {1, 3}, {7, 255, 9}), ints({ScalarType::kU8}, {}, {10})})[0].ints,
            (std::vector<int64_t>{245 * 65536 + 0xfffd, 0xffff}));
  const Case right{.op = "pack_words", .inputs = {u8({6})}, .attrs = quads("right", {{"axis", int64_t{0}}})};
  EXPECT_EQ(run(right, {ints({ScalarType::kU8}, {6}, {128, 129, 127, 255, 0, 130})})[0].ints,
            (std::vector<int64_t>{0x7fff0100, 0x0280}));
}

TEST(SumWords, OfAllNumbers) {
  check({.op = "sum_words", .inputs = {i32({3, 5})}, .attrs = quads("left", {{"axes", Ints{1}}}), .ranges = {kAny}});
  check({.op = "sum_words", .inputs = {i32({3, 5})}, .attrs = quads("right", {{"axes", Ints{0}}}), .ranges = {kAny}});
  check({.op = "sum_words",
         .inputs = {i32({4, 3, 2, 3})},
         .attrs = quads("right", {{"axes", Ints{1, 2, 3}}}),
         .ranges = {kAny}});
  const Case left{.op = "sum_words", .inputs = {i32({2})}, .attrs = quads("left", {{"axes", Ints{0}}})};
  EXPECT_EQ(run(left, {ints(DataType::i32(), {2}, {-1, 1})})[0].ints, (std::vector<int64_t>{4 * 255 + 1}));
}

TEST(MatMulWords, EachFormat) {
  for (const Attrs& attrs : {pairs({}), Attrs{{"words", std::string("quads")}}}) {
    check({.op = "matmul_words", .inputs = {i32({3, 5}), i32({5, 17})}, .attrs = attrs, .ranges = {kAny}});
    check({.op = "matmul_words", .inputs = {i32({2, 3, 5}), i32({5, 7})}, .attrs = attrs, .ranges = {kAny}});
    check({.op = "matmul_words", .inputs = {i32({5}), i32({5, 7})}, .attrs = attrs, .ranges = {kAny}});
    EXPECT_THROW(single({.op = "matmul_words", .inputs = {u8({3, 5}), u8({5, 7})}, .attrs = attrs}), UserError);
  }
  // Unsigned bytes on the left, signed ones on the right, and no saturation.
  const Case quads_once{
      .op = "matmul_words", .inputs = {i32({1, 1}), i32({1, 1})}, .attrs = {{"words", std::string("quads")}}};
  const RefTensor all = ints(DataType::i32(), {1, 1}, {-1});
  EXPECT_EQ(run(quads_once, {all, all})[0].ints, std::vector<int64_t>{-4 * 255});
}

TEST(MatMulWords, OfBf16AreSummedInF32) {
  const Attrs bf16{{"words", std::string("bf16")}};
  const RefTensor a = ints(DataType::i32(), {1, 2}, {0x40003f80, 0x3f00c040});  // 1 2, -3 0.5
  const RefTensor b = ints(DataType::i32(), {2, 1}, {0x40a04080, 0x41003f80});  // 4 5, 1 8
  const RefTensor y = run({.op = "matmul_words", .inputs = {i32({1, 2}), i32({2, 1})}, .attrs = bf16}, {a, b})[0];
  EXPECT_EQ(y.type.type, DataType::f32());
  EXPECT_EQ(y.floats, std::vector<double>{4 + 10 - 3 + 4});
}

TEST(ConvWords, EachFormat) {
  for (const Attrs& words : {pairs({}), Attrs{{"words", std::string("quads")}}}) {
    Attrs attrs = words;
    attrs["pads"] = Ints{1, 0, 1, 2};
    attrs["strides"] = Ints{2, 1};
    check({.op = "conv_words", .inputs = {i32({2, 3, 6, 5}), i32({4, 3, 3, 2})}, .attrs = attrs, .ranges = {kAny}});
    attrs["group"] = int64_t{2};
    check({.op = "conv_words", .inputs = {i32({1, 4, 6, 5}), i32({4, 2, 3, 2})}, .attrs = attrs, .ranges = {kAny}});
  }
}

}  // namespace
}  // namespace tw::ops::test
