// Axes that are neighbours everywhere become one, also where an expression counts elements by them.
#include "te/merge_axes.h"

#include <gtest/gtest.h>

#include "te/reads.h"
#include "te/rewrite.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"

namespace tw::te {
namespace {

// Every other element counted by `i` is 0, as a dropout leaves them; sums of the columns.
Program program_of(const std::function<Expr(const std::vector<Expr>&)>& element) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {3, 4, 6});
  const Tensor kept = b.compute("kept", x.shape, [&](const auto& i) {
    return select(floor_mod(element(i), Expr(4)) < Expr(2), x(i), float_imm(0));
  });
  const Tensor sum = b.reduce("sum", {6}, {3, 4}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return kept({r[0], r[1], i[0]});
  });
  return b.finish("p", {kept, sum});
}

Program merged(const Program& before) {
  Program after = merge_reductions(apply_layouts(before, mergeable_axes(before)));
  const ValueMap inputs = testing::whole_inputs(before);
  ValueMap flat = inputs;
  flat.at("x").shape = after.inputs[0].shape;
  const ValueMap want = evaluate(before, inputs), got = evaluate(after, flat);
  for (const std::string& name : before.outputs) EXPECT_EQ(want.at(name).floats, got.at(name).floats) << name;
  return after;
}

TEST(MergeAxes, ThatCountElementsRowByRow) {
  const Program p = merged(program_of([](const auto& i) { return i[0] * Expr(24) + i[1] * Expr(6) + i[2]; }));
  EXPECT_EQ(p.inputs[0].shape, (Shape{12, 6})) << to_string(p);
  EXPECT_EQ(p.find_compute("sum")->reduce_axes.size(), 1U);
  EXPECT_EQ(to_string(p).find("floordiv"), std::string::npos) << to_string(p);
}

TEST(MergeAxes, NotOfOthers) {
  for (const auto& [first, second] : std::vector<std::pair<int, int>>{{25, 6}, {0, 6}, {24, 0}, {6, 24}}) {
    const Program p =
        merged(program_of([&](const auto& i) { return i[0] * Expr(first) + i[1] * Expr(second) + i[2]; }));
    EXPECT_EQ(p.inputs[0].shape, (Shape{3, 4, 6})) << first << " " << second << " " << to_string(p);
  }
}

// A tensor that is read row by row, as the bits of a dropout are, or in another order.
TEST(MergeAxes, OfWhatIsReadByTheNumberOfARow) {
  for (const auto& [factor, rows] : {std::pair{4, Shape{12, 6}}, {1, Shape{3, 4, 6}}}) {
    Builder b;
    const Tensor x = b.placeholder("x", DataType::f32(), {3, 4, 6}),
                 bits = b.placeholder("bits", DataType::f32(), {24});
    const Tensor y = b.compute("y", x.shape, [&, factor = factor](const auto& i) {
      const Expr row = i[0] * Expr(2 * factor) + i[1] * Expr(2);
      return x(i) * bits({row + floor_div(i[2], Expr(3))});
    });
    const Program before = b.finish("p", {y}), after = merged(before);
    EXPECT_EQ(after.inputs[0].shape, rows) << to_string(after);
  }
}

}  // namespace
}  // namespace tw::te
