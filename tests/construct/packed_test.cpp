// Narrow products of a batch, those of a convolution's groups, share the tiles of GPUs.
#include <gtest/gtest.h>

#include <algorithm>

#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

struct Groups {
  int64_t count, channels, out_channels, stride = 1, pad = 1;
  int64_t h = 5, w = 6;  // pixels
};

// Channels last, 3 x 3 windows, bias and ReLU.
te::Program grouped_windows(const Groups& g, DataType type) {
  te::Builder b;
  const int64_t h = (g.h + 2 * g.pad - 3) / g.stride + 1, w = (g.w + 2 * g.pad - 3) / g.stride + 1;
  const te::Tensor x = b.placeholder("x", type, {2, g.h, g.w, g.count * g.channels});
  const te::Tensor weight = b.placeholder("w", type, {g.count * g.out_channels, g.channels, 3, 3});
  const te::Tensor bias = b.placeholder("bias", type, {g.count * g.out_channels});
  const auto inside = [&](const Expr& i, int64_t extent) { return i >= Expr(g.pad) && i < Expr(extent + g.pad); };
  const te::Tensor pad =
      b.compute("pad", {2, g.h + 2 * g.pad, g.w + 2 * g.pad, g.count * g.channels}, [&](const auto& i) {
        return select(inside(i[1], g.h) && inside(i[2], g.w), x({i[0], i[1] - Expr(g.pad), i[2] - Expr(g.pad), i[3]}),
                      imm(type, 0));
      });
  const te::Tensor& from = g.pad > 0 ? pad : x;
  const te::Tensor y =
      b.reduce("conv", {2, h, w, g.count * g.out_channels}, {g.channels, 3, 3}, te::CombinerKind::kSum,
               [&](const auto& i, const auto& r) {
                 const Expr channel = floor_div(i[3], Expr(g.out_channels)) * Expr(g.channels) + r[0];
                 const Expr pixel = from({i[0], i[1] * Expr(g.stride) + r[1], i[2] * Expr(g.stride) + r[2], channel});
                 return cast(DataType::f32(), pixel) * cast(DataType::f32(), weight({i[3], r[0], r[1], r[2]}));
               });
  const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) {
    return cast(type, max(y(i) + cast(DataType::f32(), bias({i[3]})), float_imm(0)));
  });
  return b.finish("groups", {z});
}

GroupTask task_of(const Groups& g, DataType type) {
  const te::Program p = grouped_windows(g, type);
  return {te::apply_layouts(p, te::mergeable_axes(p)), {"w"}};
}

bool is_packed(const Construction& c) {
  return !c.trace.empty() && c.trace.front().find(" products of ") != std::string::npos;
}

TEST(Packed, GroupsOfFewChannelsShareTiles) {
  const Groups all[] = {{3, 4, 4},
                        {8, 4, 4, 2, 1, 9, 10},
                        {4, 8, 8, 1, 1, 9, 10},
                        {6, 8, 16, 2, 0, 7, 11},
                        {4, 16, 16},
                        {2, 32, 32, 2, 1, 7, 7},
                        {6, 2, 2},
                        {5, 3, 3},
                        {4, 5, 7, 2, 1, 7, 9},
                        {4, 24, 20},
                        {2, 4, 9, 1, 0}};
  for (const Groups& g : all) {
    SCOPED_TRACE(fmt::format("{} groups of {} and {} channels, stride {}, padding {}", g.count, g.channels,
                             g.out_channels, g.stride, g.pad));
    check(task_of(g, DataType::f16()), "cuda:sm_90a", "packed", 1e-2);
    const targets::Target t = targets::find_target("cuda:sm_80");
    const std::vector<Construction> built = construct(t.families, task_of(g, DataType::f16()), t.info, nullptr);
    EXPECT_GT(std::ranges::count_if(built, is_packed), 0);
  }
}

TEST(Packed, OtherTypes) {
  check(task_of({4, 8, 8}, DataType::bf16()), "cuda:sm_80", "packed", 5e-2);
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Construction& c : construct(t.families, task_of({4, 8, 8}, DataType::f32()), t.info, nullptr))
    EXPECT_FALSE(is_packed(c));
}

// Of one channel there are no steps beside each other.
TEST(Packed, GroupsOfOneChannelDoNot) { check(task_of({16, 1, 2}, DataType::f16()), "cuda:sm_90a", "point", 1e-2); }

// No weight of one group meets numbers of another one, nor one of none.
TEST(Packed, SpecialValuesStayInTheirGroup) {
  for (const Groups& g : {Groups{3, 4, 4}, Groups{4, 8, 8, 2}, Groups{4, 3, 5}})
    check(task_of(g, DataType::f16()), "cuda:sm_90a", "packed", 1e-2, Values::kSpecial);
}

}  // namespace
}  // namespace tw::construct
