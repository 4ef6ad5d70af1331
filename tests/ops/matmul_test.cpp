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

// 1 + 2^-10 is a number of tf32, what lies between it and 1 is none.
TEST(MatMul, MultipliesTf32) {
  for (const auto& [a, b] : kShapes)
    check({.op = "matmul", .inputs = {f32(a), f32(b)}, .attrs = {{"operands", "tf32"}}, .tolerance = 1e-9});
  const auto y = run({.op = "matmul", .inputs = {f32({1, 2}), f32({2, 1})}, .attrs = {{"operands", "tf32"}}},
                     {floats({1, 2}, {1 + 0x1.8p-10, 1}), floats({2, 1}, {1 - 0x1p-12, -1})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{(1 + 0x1p-10) * (1 - 0x1p-11) - 1}));
  EXPECT_THROW(check({.op = "matmul", .inputs = {f16({1, 1}), f16({1, 1})}, .attrs = {{"operands", "tf32"}}}),
               UserError);
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

TEST(MatMulInteger, ZeroPoints) {
  const Range bytes{0, 255}, signed_bytes{-128, 127};
  check({.op = "matmul_integer", .inputs = {u8({3, 5}), i8({5, 7})}, .ranges = {bytes, signed_bytes}});
  check({.op = "matmul_integer",
         .inputs = {u8({2, 3, 5}), i8({5, 7}), u8({}), i8({7})},
         .ranges = {bytes, signed_bytes, bytes, signed_bytes}});
  check({.op = "matmul_integer",
         .inputs = {i8({3, 5}), u8({2, 5, 7}), i8({3}), u8({1})},
         .ranges = {signed_bytes, bytes, signed_bytes, bytes}});
  check({.op = "matmul_integer", .inputs = {u8({5}), u8({5, 7}), absent(), u8({7})}, .ranges = {bytes}});
  EXPECT_THROW(single({.op = "matmul_integer", .inputs = {i32({3, 5}), i32({5, 7})}}), UserError);
  EXPECT_THROW(single({.op = "matmul_integer", .inputs = {u8({3, 5}), u8({5, 7}), u8({7})}}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
