// apply_layouts: the rewritten program on inputs in their layouts gives the original's outputs in theirs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/error.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/harness/eval_index.h"
#include "tests/harness/layouts.h"
#include "tests/te/layout_check.h"

namespace tw::te {
namespace {

using samples::check;
using samples::Layouts;
using samples::Random;

TEST(DropUnread, ComputesAndSingleOutputs) {
  const std::string text = R"(te p
input x: f32[4]
input z: f32[4]
dead: f32[4] (i0) = (z[i0] + 1:f32)
other: f32[4], pair: f32[4] (i0) = (dead[i0], (x[i0] + 2:f32))
y: f32[4] (i0) = (pair[i0] * 3:f32)
output y
)";
  Program program = parse_program(text);
  EXPECT_EQ(drop_unread(program), (std::set<std::string>{"pair", "x", "y"}));
  verify(program);
  ASSERT_EQ(program.computes.size(), 2u);
  EXPECT_EQ(program.computes[0].outputs.size(), 1u);
  EXPECT_EQ(program.computes[0].name(), "pair");
  EXPECT_EQ(program.computes[0].body.size(), 1u);
}

int count_divisions(const Program& program) {
  int count = 0;
  for (const Compute& c : program.computes) {
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) { count += e.op() == Op::kFloorDiv || e.op() == Op::kFloorMod; });
    }
  }
  return count;
}

TEST(LayoutRewriteText, BlockedMatmulHasNoDivision) {
  const Program program = samples::matmul_bias_relu(64, 48, 40);
  const Layout c = Layout().split(0, {4, 16}).split(2, {3, 16}).reorder({0, 2, 1, 3});
  const Layouts layouts = {{"A", Layout().split(0, {4, 16}).reorder({0, 2, 1})},
                           {"B", Layout().split(1, {3, 16}).reorder({1, 0, 2})},
                           {"bias", Layout().split(0, {3, 16})},
                           {"C", c},
                           {"Y", c}};
  const Program rewritten = apply_layouts(program, layouts);
  EXPECT_EQ(count_divisions(rewritten), 0) << to_string(rewritten);
  EXPECT_EQ(to_string(rewritten.computes[0].body[0]), "(A[i0, r0, i2] * B[i1, r0, i3])");
  EXPECT_EQ(to_string(rewritten.computes[1].body[0]), "max((C[i0, i1, i2, i3] + bias[i1, i3]), 0:f32)");
}

TEST(LayoutRewriteText, BlockedConvolutionDividesNothing) {
  const Program program = samples::conv(16, 9, 32, 2, 1, samples::Guard::kPredicate);
  const Layout x = channels_blocked(4, 16, 8), c = channels_blocked(4, 32, 16);
  const Layouts layouts = {{"X", x},
                           {"C", c},
                           {"Y", c},
                           {"bias", Layout().split(0, {2, 16})},
                           {"W", Layout().split(0, {2, 16}).split(2, {4, 4}).reorder({0, 2, 4, 5, 3, 1})}};
  // Blocks of 8 in X and of 4 in W: three axes.
  const Program rewritten = split_reductions(apply_layouts(program, layouts));
  EXPECT_EQ(count_divisions(rewritten), 0) << to_string(rewritten);
  EXPECT_EQ(shape_of(rewritten.find_compute("C")->reduce_axes), (Shape{2, 2, 4, 3, 3}));
  EXPECT_EQ(rewritten.tensor("Y").shape, (Shape{2, 2, 5, 5, 16}));
  Random random(4);
  check(program, layouts, {}, random);
}

TEST(LayoutRewriteText, ElementwiseConsumersInheritAnyLayout) {
  // Three-way fuses: forward after backward must be the identity, whatever the arithmetic in between.
  Random random(7);
  const Program program = samples::conv(3, 8, 12, 1, 1, samples::Guard::kSelect);
  for (int k = 0; k < 50; ++k) {
    const Layout layout =
        samples::random_layout(program.tensor("C").shape, random, samples::Padding::kAllowed).fuse(0, 1);
    const Program rewritten = apply_layouts(program, {{"C", layout}, {"Y", layout}});
    const std::vector<Expr> vars = te::variables(rewritten.computes.back().axes);
    bool found = false;
    visit(rewritten.computes.back().body[0],
          [&](const Expr& e) { found = found || (e.op() == Op::kLoad && equal(e, load(e->name, e.type(), vars))); });
    EXPECT_TRUE(found) << to_string(layout) << "\n" << to_string(rewritten);
  }
}

TEST(LayoutRewritePadding, InBoundsReductionStaysUnguarded) {
  // N padded in B and in C: the contraction runs over the padding, one select afterwards writes the fill.
  Builder b;
  const Tensor x = b.placeholder("A", DataType::f32(), {5, 7});
  const Tensor w = b.placeholder("B", DataType::f32(), {7, 46});
  const Tensor c = b.reduce("C", {5, 46}, {7}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const Program program = b.finish("padded", {c});
  const Layouts layouts = {{"B", Layout().pad(1, 0, 2)}, {"C", Layout().pad(1, 0, 2)}};
  const Program rewritten = apply_layouts(program, layouts);
  ASSERT_EQ(rewritten.computes.size(), 2u) << to_string(rewritten);
  EXPECT_EQ(to_string(rewritten.computes[0].body[0]), "(A[i0, r0] * B[r0, i1])");
  EXPECT_EQ(to_string(rewritten.computes[1].body[0]), "select((i1 < 46), C_raw[i0, i1], 0:f32)");
  Random random(3);
  check(program, layouts, {}, random);
  // Without room in B the body is guarded, and the neutral element is the fill already.
  const Program guarded = apply_layouts(program, {{"C", Layout().pad(1, 0, 2)}});
  ASSERT_EQ(guarded.computes.size(), 1u) << to_string(guarded);
  EXPECT_EQ(guarded.computes[0].body[0].op(), Op::kSelect);
}

TEST(LayoutRewritePadding, TextPrograms) {
  const char* const texts[] = {
      // A start value above the fill: the fill is no result of the guarded reduction.
      "te start\ninput X: f32[3, 4]\nY: f32[3] = max(r0 in 4) from 3:f32 over (i0) of X[i0, r0]\noutput Y\n",
      // A condition that only the padding meets: its read is outside X.
      "te tail\ninput X: f32[3]\nY: f32[4] = sum(r0 in 3) over (i0) of select((i0 < 4), X[r0], X[(r0 + 9)])\noutput "
      "Y\n",
      // Combining two identities divides zero by zero.
      "te mean\ninput X: f32[3, 5]\nn: f32[3], m: f32[3] = tuple(r0 in 5) from (0:f32, 0:f32) over (i0) of (1:f32, "
      "X[i0, r0])"
      " by (na, ma), (nb, mb) -> ((na + nb), (((na * ma) + (nb * mb)) / (na + nb)))\noutput n, m\n",
      // No elements to reduce.
      "te none\ninput X: f32[3, 0]\nY: f32[3] = min(r0 in 0) over (i0) of X[i0, r0]\noutput Y\n",
  };
  Random random(8);
  for (const char* text : texts) {
    const Program program = parse_program(text);
    Layouts layouts;
    for (const std::string& name : program.outputs) layouts[name] = Layout().pad(0, 1, 2);
    check(program, layouts, {}, random);
  }
}

TEST(LayoutRewritePadding, MaximumTakesItsFill) {
  const Program program = samples::max_pool(3, 7);
  Random random(11);
  const double infinity = std::numeric_limits<double>::infinity();
  for (double fill : {-infinity, 0.0, 2.0})
    check(program, {{"Y", Layout().pad(2, 1, 1).pad(1, 0, 5)}}, {{"Y", fill}}, random);
}

TEST(LayoutRewritePadding, DroppedElementsBecomeFill) {
  // unpad drops data, the pad after it writes fill there: materialize and the rewriting agree.
  const Program program = samples::transpose_add(3, 4, 5);
  const Layout layout = Layout().then({LayoutOp::kUnpad, 1, {1, 0}}).pad(1, 2, 1);
  const Program rewritten = apply_layouts(program, {{"Y", layout}}, {{"Y", 9}});
  Random random(5);
  const ValueMap inputs = samples::random_inputs(program, random, 1);
  EXPECT_TRUE(samples::same(evaluate(rewritten, inputs).at("Y"),
                            samples::in_layout(evaluate(program, inputs).at("Y"), layout, 9)));
}

// A condition that is false at every index takes the last read of a compute, and of those before it, with it.
TEST(LayoutRewrite, ComputesThatNothingReadsAreLeftOut) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {3, 4});
  const Tensor first = b.compute("first", {3, 4}, [&](const std::vector<Expr>& i) { return -x(i); });
  const Tensor sum = b.reduce("sum", {3}, {4}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return first({i[0], r[0]});
  });
  const Tensor kept = b.reduce("kept", {3}, {4}, CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const Tensor y =
      b.compute("y", {3}, [&](const std::vector<Expr>& i) { return select(i[0] < int_imm(3), kept(i), sum(i)); });
  const Program simple = apply_layouts(b.finish("p", {y}), {});
  ASSERT_EQ(simple.computes.size(), 2U) << to_string(simple);
  EXPECT_EQ(simple.computes[0].name(), "kept");
  EXPECT_EQ(simple.outputs, std::vector<std::string>{"y"});
}

TEST(LayoutRewriteErrors, AreNamed) {
  const Program program = samples::argmax(4, 6);
  EXPECT_THROW(apply_layouts(program, {{"nobody", Layout()}}), InternalError);
  EXPECT_THROW(apply_layouts(program, {{"value", Layout().split(0, {2, 2})}}),
               InternalError);  // "place" has another one
  EXPECT_THROW(apply_layouts(program, {{"X", Layout().split(0, {3, 2})}}), InternalError);
}

TEST(IndexMap, LogicalAfterStorageIsTheIdentity) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Shape shape = {samples::pick(random, 1, 6), samples::pick(random, 1, 7), samples::pick(random, 1, 8)};
    const Layout layout = samples::random_layout(shape, random, samples::Padding::kAllowed);
    const std::vector<Expr> vars = {var("a"), var("b"), var("c")};
    const std::vector<Expr> storage = storage_indices(layout, shape, vars);
    const auto [back, inside] = logical_point(layout, shape, storage);
    for (int k = 0; k < 20; ++k) {
      const std::vector<int64_t> point = {samples::pick(random, 0, shape[0] - 1),
                                          samples::pick(random, 0, shape[1] - 1),
                                          samples::pick(random, 0, shape[2] - 1)};
      const std::unordered_map<std::string, int64_t> values = {{"a", point[0]}, {"b", point[1]}, {"c", point[2]}};
      for (size_t d = 0; d < 3; ++d) EXPECT_EQ(eval_index(back[d], values), point[d]) << to_string(layout);
      EXPECT_EQ(eval_index(inside, values), 1) << to_string(layout);
      const Shape stored = layout.storage_shape(shape);
      for (size_t d = 0; d < stored.size(); ++d) {
        const int64_t index = eval_index(storage[d], values);
        EXPECT_TRUE(index >= 0 && index < stored[d]) << to_string(layout);
      }
    }
  }
}

}  // namespace
}  // namespace tw::te
