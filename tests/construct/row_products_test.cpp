// Products of few rows, one after the other, by a block for each row.
#include <gtest/gtest.h>

#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

// Squeeze and excite: means to fewer channels and back, with activations.
te::Program squeeze_and_excite(int64_t rows, int64_t channels, int64_t squeezed, DataType type) {
  te::Builder b;
  const DataType f32 = DataType::f32();
  const te::Tensor x = b.placeholder("x", type, {rows, channels});
  const te::Tensor w0 = b.placeholder("w0", type, {squeezed, channels});
  const te::Tensor w1 = b.placeholder("w1", type, {channels, squeezed});
  const te::Tensor bias = b.placeholder("bias", type, {squeezed});
  const te::Tensor s0 =
      b.reduce("s0", {rows, squeezed}, {channels}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return cast(f32, x({i[0], r[0]})) * cast(f32, w0({i[1], r[0]}));
      });
  const te::Tensor silu = b.compute("silu", {rows, squeezed}, [&](const auto& i) {
    const Expr value = s0(i) + cast(f32, bias({i[1]}));
    return cast(type, value / (float_imm(1) + call("exp", {-value})));
  });
  const te::Tensor s1 =
      b.reduce("s1", {rows, channels}, {squeezed}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return cast(f32, silu({i[0], r[0]})) * cast(f32, w1({i[1], r[0]}));
      });
  const te::Tensor y = b.compute("y", {rows, channels}, [&](const auto& i) {
    return cast(type, float_imm(1) / (float_imm(1) + call("exp", {-s1(i)})));
  });
  return b.finish("excite", {y});
}

TEST(RowProducts, SqueezeAndExcite) {
  const int64_t shapes[][3] = {{16, 96, 4}, {3, 240, 10}, {2, 672, 28}, {5, 37, 9}, {2, 544, 33}, {1, 33, 7}};
  for (const auto& [rows, channels, squeezed] : shapes) {
    SCOPED_TRACE(fmt::format("{} rows, {} channels, {} between", rows, channels, squeezed));
    for (const DataType type : {DataType::f16(), DataType::f32()})
      check({squeeze_and_excite(rows, channels, squeezed, type), {"w0", "w1", "bias"}}, "cuda:sm_90a", "row-products",
            type == DataType::f16() ? 2e-3 : 1e-5);
  }
}

TEST(RowProducts, WeightsThatAreNoConstants) {
  check({squeeze_and_excite(4, 40, 12, DataType::f16()), {}}, "cuda:sm_80", "row-products", 2e-3);
}

TEST(RowProducts, SpecialValuesStayInTheirRow) {
  check({squeeze_and_excite(4, 40, 12, DataType::f16()), {"w0", "w1"}}, "cuda:sm_90a", "row-products", 2e-3,
        Values::kSpecial);
}

// They fill tiles of matrices.
TEST(RowProducts, ManyRowsAndLongOnesAreOthers) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{squeeze_and_excite(256, 64, 16, DataType::f16()), {"w0", "w1"}};
  EXPECT_NE(construct(t.families, task, t.info, nullptr).front().family, "row-products");
  // Of operands that one SM would read for long, several SMs have a share.
  const GroupTask wide{squeeze_and_excite(2, 2048, 512, DataType::f16()), {"w0", "w1"}};
  EXPECT_NE(construct(t.families, wide, t.info, nullptr).front().family, "row-products");
}

}  // namespace
}  // namespace tw::construct
