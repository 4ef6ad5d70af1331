// Products whose left operand is computed where threads copy it: the scale of squeeze and excite.
#include <gtest/gtest.h>

#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

// Images of `pixels`, scaled by channel, times weights.
te::Program scaled(int64_t images, int64_t pixels, int64_t channels, int64_t columns, DataType type) {
  te::Builder b;
  const DataType f32 = DataType::f32();
  const te::Tensor x = b.placeholder("x", type, {images, pixels, channels});
  const te::Tensor s = b.placeholder("s", type, {images, channels});
  const te::Tensor w = b.placeholder("w", type, {columns, channels});
  const te::Tensor bias = b.placeholder("bias", type, {columns});
  const te::Tensor mul = b.compute("mul", {images, pixels, channels}, [&](const auto& i) {
    return cast(type, cast(f32, x(i)) * cast(f32, s({i[0], i[2]})));
  });
  const te::Tensor y =
      b.reduce("y", {images, pixels, columns}, {channels}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return cast(f32, mul({i[0], i[1], r[0]})) * cast(f32, w({i[2], r[0]}));
      });
  const te::Tensor z = b.compute("z", {images, pixels, columns},
                                 [&](const auto& i) { return cast(type, y(i) + cast(f32, bias({i[2]}))); });
  return b.finish("scaled", {z});
}

TEST(ComputedOperand, IsScaledAsItIsCopied) {
  const int64_t shapes[][4] = {{3, 49, 96, 24}, {2, 40, 72, 40}, {5, 9, 33, 9}, {2, 16, 200, 112}};
  for (const auto& [images, pixels, channels, columns] : shapes) {
    SCOPED_TRACE(fmt::format("{} images of {} pixels, {} channels to {}", images, pixels, channels, columns));
    check({scaled(images, pixels, channels, columns, DataType::f16()), {"w"}}, "cuda:sm_90a", "contraction", 1e-2);
  }
  check({scaled(3, 20, 48, 24, DataType::bf16()), {"w"}}, "cuda:sm_80", "contraction", 5e-2);
}

TEST(ComputedOperand, SpecialValues) {
  check({scaled(2, 20, 48, 24, DataType::f16()), {"w"}}, "cuda:sm_90a", "contraction", 1e-2, Values::kSpecial);
}

}  // namespace
}  // namespace tw::construct
