#include <gtest/gtest.h>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

const std::vector<std::pair<Shape, Shape>> kShapes = {
    {{3, 5}, {5, 7}},       {{1, 1}, {1, 1}},       {{5}, {5}},
    {{5}, {5, 3}},          {{3, 5}, {5}},          {{2, 3, 5}, {5, 7}},
    {{3, 5}, {2, 5, 7}},    {{2, 3, 5}, {2, 5, 1}}, {{2, 1, 3, 5}, {4, 5, 2}},
    {{1, 3, 5}, {7, 5, 2}}, {{2, 3, 5}, {5}},       {{5}, {2, 5, 3}},
    {{13, 17}, {17, 11}},   {{0, 5}, {5, 3}},       {{3, 0}, {0, 2}},
};

TEST(MatMul, ShapesByNumpysRules) {
  for (const auto& [a, b] : kShapes) {
    check({.op = "matmul", .inputs = {f32(a), f32(b)}, .tolerance = 1e-9});
    check({.op = "matmul", .inputs = {f16(a), f16(b)}, .tolerance = 1e-9});
    check({.op = "matmul", .inputs = {i32(a), i32(b)}, .ranges = {{-1000000, 1000000}}});
    check({.op = "matmul", .inputs = {i64(a), i64(b)}});
  }
  EXPECT_EQ(single({.op = "matmul", .inputs = {f32({5}), f32({2, 5, 3})}}).values.back().type.shape, (Shape{2, 3}));
  EXPECT_EQ(single({.op = "matmul", .inputs = {f32({2, 3, 5}), f32({5})}}).values.back().type.shape, (Shape{2, 3}));
}

TEST(MatMul, KnownValues) {
  const auto y = run({.op = "matmul", .inputs = {f32({2, 2}), f32({2, 2})}},
                     {floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {5, 6, 7, 8})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{19, 22, 43, 50}));
}

// Large enough for the reference to run on several threads: every element is a count.
TEST(MatMul, ManyThreads) {
  const int64_t m = 131, k = 257, n = 113;
  graph::Graph g = single({.op = "matmul", .inputs = {f32({m, k}), f32({k, n})}});
  RefTensor a = RefTensor::zeros(f32({m, k})), b = RefTensor::zeros(f32({k, n}));
  for (int64_t i = 0; i < m * k; ++i) a.floats[i] = static_cast<double>(i % 7);
  for (int64_t i = 0; i < k * n; ++i) b.floats[i] = static_cast<double>(i % 5);
  const Case c{.op = "matmul", .inputs = {f32({m, k}), f32({k, n})}, .tolerance = 0};
  run(c, {a, b});
}

TEST(MatMul, Rejects) {
  EXPECT_THROW(single({.op = "matmul", .inputs = {f32({3, 5}), f32({3, 5})}}), UserError);
  EXPECT_THROW(single({.op = "matmul", .inputs = {f32({}), f32({3, 5})}}), UserError);
  EXPECT_THROW(single({.op = "matmul", .inputs = {f32({2, 3, 5}), f32({3, 5, 2})}}), UserError);
  EXPECT_THROW(single({.op = "matmul", .inputs = {f32({3, 5}), f16({5, 3})}}), UserError);
}

TEST(Pairs, PackedWithZeroPoints) {
  const Range bytes{0, 255}, signed_bytes{-128, 127};
  const graph::Attrs last{{"axis", int64_t{1}}}, first{{"axis", int64_t{0}}};
  check({.op = "pack_pairs", .inputs = {u8({3, 6})}, .attrs = last, .ranges = {bytes}});
  check({.op = "pack_pairs", .inputs = {u8({3, 5}), u8({})}, .attrs = last, .ranges = {bytes, bytes}});
  check({.op = "pack_pairs", .inputs = {i8({5, 7}), i8({7})}, .attrs = first, .ranges = {signed_bytes, signed_bytes}});
  check({.op = "pack_pairs", .inputs = {u8({3, 5}), u8({3})}, .attrs = last, .ranges = {bytes, bytes}});
  check({.op = "pack_pairs", .inputs = {u8({5}), u8({1})}, .attrs = first, .ranges = {bytes, bytes}});
  check({.op = "pack_pairs",
         .inputs = {u8({2, 3, 5}), u8({5})},
         .attrs = {{"axis", int64_t{1}}},
         .ranges = {bytes, bytes}});
  EXPECT_THROW(single({.op = "pack_pairs", .inputs = {u8({3, 5}), u8({2})}, .attrs = last}), UserError);
  EXPECT_THROW(single({.op = "pack_pairs", .inputs = {i32({3, 5})}, .attrs = last}), UserError);
  EXPECT_THROW(single({.op = "pack_pairs", .inputs = {u8({2, 3, 5})}, .attrs = first}), UserError);
}

TEST(Pairs, WordsHoldNeighboursLowFirst) {
  const Case pack{.op = "pack_pairs", .inputs = {u8({1, 3}), u8({})}, .attrs = {{"axis", int64_t{1}}}};
  RefTensor x = RefTensor::zeros(u8({1, 3})), zero = RefTensor::zeros(u8({}));
  x.ints = {7, 255, 9};
  zero.ints = {10};
  EXPECT_EQ(run(pack, {x, zero})[0].ints, (std::vector<int64_t>{245 * 65536 + 0xfffd, 0xffff}));
}

TEST(Pairs, Product) {
  const Range any{-2147483648.0, 2147483647.0};
  check({.op = "matmul_pairs", .inputs = {i32({3, 5}), i32({5, 17})}, .ranges = {any, any}});
  check({.op = "matmul_pairs", .inputs = {i32({2, 3, 5}), i32({5, 7})}, .ranges = {any, any}});
  check({.op = "matmul_pairs", .inputs = {i32({5}), i32({5, 7})}, .ranges = {any, any}});
  EXPECT_THROW(single({.op = "matmul_pairs", .inputs = {u8({3, 5}), u8({5, 7})}}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
