// Tensors inside a program are stored as what they are computed with.
#include <gtest/gtest.h>

#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"

namespace tw::te {
namespace {

// The sum of (x - its first element of the channel)^2 over all but the channels of x[n, c, h, w].
Program squares() {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {4, 5, 3, 6});
  const Tensor off = b.compute("off", x.shape, [&](const auto& i) {
    return x(i) - x({int_imm(0), i[1], int_imm(0), int_imm(0)});
  });
  const Tensor sum = b.reduce("sum", {5}, {4, 3, 6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr element = off({r[0], i[0], r[1], r[2]});
    return element * element;
  });
  return b.finish("p", {sum});
}

TEST(FollowedLayouts, WhereTheOutputHasOtherDims) {
  const Layout last = Layout().reorder({0, 2, 3, 1});
  const auto followed = followed_layouts(squares(), {{"x", last}});
  ASSERT_EQ(followed.size(), 1U);
  EXPECT_EQ(followed.at("off"), last);
  EXPECT_TRUE(followed_layouts(squares(), {}).empty());
  EXPECT_TRUE(followed_layouts(squares(), {{"x", Layout().pad(1, 0, 3)}}).empty()) << "expands";
  EXPECT_TRUE(followed_layouts(squares(), {{"x", Layout().unfold(3, 4, 2)}}).empty()) << "expands";
  const Layout blocked = Layout().split(3, {3, 2}).unfold(2, 3, 3);
  EXPECT_EQ(followed_layouts(squares(), {{"x", blocked}}).at("off"), blocked);
}

// An element at a fixed place keeps no dims apart.
TEST(FollowedLayouts, ImagesAndTheirLinesAreOneReduction) {
  const Layout last = Layout().reorder({0, 2, 3, 1});
  const Program before = apply_layouts(squares(), {{"x", last}, {"off", last}});
  const Program after = merge_reductions(apply_layouts(before, mergeable_axes(before)));
  for (const Compute& c : after.computes) {
    if (c.is_reduction()) EXPECT_EQ(c.reduce_axes.size(), 1U) << to_string(after);
  }
  const ValueMap inputs = testing::whole_inputs(before);
  ValueMap stored = inputs;
  stored.at("x").shape = after.inputs.at(0).shape;
  EXPECT_EQ(evaluate(before, inputs).at("sum").floats, evaluate(after, stored).at("sum").floats);
}

// The sum of the squares of each filter, stored with its channels last.
TEST(FollowedLayouts, ReductionsRunInTheOrderOfWhatTheyRead) {
  Builder b;
  const Tensor w = b.placeholder("w", DataType::f32(), {4, 5, 3, 6});
  const Tensor sum = b.reduce("sum", {4}, {5, 3, 6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr element = w({i[0], r[0], r[1], r[2]});
    return element * element;
  });
  const Program before = apply_layouts(b.finish("p", {sum}), {{"w", Layout().reorder({0, 2, 3, 1})}});
  const Program ordered = order_reductions(before);
  const Program after = merge_reductions(apply_layouts(ordered, mergeable_axes(ordered)));
  EXPECT_EQ(after.computes.at(0).reduce_axes.size(), 1U) << to_string(after);
  const ValueMap inputs = testing::whole_inputs(before);
  ValueMap stored = inputs;
  stored.at("w").shape = after.inputs.at(0).shape;
  EXPECT_EQ(evaluate(before, inputs).at("sum").floats, evaluate(after, stored).at("sum").floats);
}

}  // namespace
}  // namespace tw::te
