// NaN, infinities and numbers far larger than the others reach the outputs that read them and no others: every family
// of contractions, on the interpreter. (Winograd's: winograd_test.cpp; as compiled code: tests/driver.)
#include <gtest/gtest.h>

#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

te::Program half_product(int64_t m, int64_t n, int64_t k) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {m, k}), w = b.placeholder("w", DataType::f16(), {n, k});
  const te::Tensor y = b.reduce("y", {m, n}, {k}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), x({i[0], r[0]})) * cast(DataType::f32(), w({i[1], r[0]}));
  });
  return b.finish("product", {b.compute("z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i)); })});
}

TEST(SpecialValues, Products) {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "cuda:sm_90a"})
    check({testing::matmul_relu(21, 35, 19), {"w"}}, target, "contraction", 1e-5, Values::kSpecial);
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"})
    check({half_product(40, 24, 36), {"w"}}, target, "contraction", 1e-2, Values::kSpecial);
}

// Three phases of a transposed convolution, channels last; the first has one filter position less, whose weight no
// product reads.
te::Program conv_of_phases(int64_t c, int64_t oc, DataType type) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, {19, c}), w = b.placeholder("w", type, {oc, c, 3, 2});
  const te::Tensor y = b.reduce("conv", {17, 3, oc}, {c, 2}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr start = select(i[1] < Expr(2), Expr(0), Expr(1)), count = select(i[1] < Expr(1), Expr(1), Expr(2));
    const Expr term =
        cast(DataType::f32(), x({i[0] + start + r[1], r[0]})) * cast(DataType::f32(), w({i[2], r[0], i[1], r[1]}));
    return select(r[1] < count, term, float_imm(0));
  });
  return b.finish("phases", {y});
}

TEST(SpecialValues, Phases) {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3"})
    check({conv_of_phases(8, 16, DataType::f32()), {"w"}}, target, "contraction", 1e-5, Values::kSpecial);
  check({conv_of_phases(8, 16, DataType::f32()), {"w"}}, "cuda:sm_80", "contraction", 1e-2, Values::kSpecial);
  check({conv_of_phases(8, 16, DataType::f16()), {"w"}}, "cuda:sm_90a", "contraction", 1e-2, Values::kSpecial);
}

TEST(SpecialValues, Convolutions) {
  for (const testing::ConvShape& c : {testing::ConvShape{5, 3, 9, 3, 1}, {7, 8, 16, 3, 2}, {9, 16, 32, 1, 1}}) {
    for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "cuda:sm_90a"})
      check({testing::conv_2d(c), {"w"}}, target, "contraction", 1e-5, Values::kSpecial);
  }
  check({testing::depthwise(9, 21), {"w"}}, "cpu:x86-64-v4", "contraction", 1e-5, Values::kSpecial);
}

}  // namespace
}  // namespace tw::construct
