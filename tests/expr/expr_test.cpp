#include "expr/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/error.h"
#include "tests/harness/eval_index.h"

namespace tw {
namespace {

TEST(Expr, ConstructorsFoldAndShorten) {
  const Expr i = var("i");
  EXPECT_TRUE((Expr(3) + Expr(4)).is_int(7));
  EXPECT_TRUE(floor_div(Expr(-7), Expr(2)).is_int(-4));
  EXPECT_TRUE(floor_mod(Expr(-7), Expr(2)).is_int(1));
  EXPECT_TRUE((i + 0).same(i));
  EXPECT_TRUE((i * 1).same(i));
  EXPECT_TRUE((i * 0).is_int(0));
  EXPECT_TRUE((i < 3 && int_imm(0, DataType::boolean())).is_int(0));
  EXPECT_EQ(floor_div(Expr(1), Expr(0)).op(), Op::kFloorDiv);  // left to whoever evaluates it
  EXPECT_TRUE(select(Expr(1) < Expr(2), i, Expr(5)).same(i));
  EXPECT_TRUE(cast(DataType::i64(), i).same(i));
}

TEST(Expr, NegationAsksForNull) {
  const Expr none;
  const Expr some = var("p", DataType::boolean());
  EXPECT_TRUE(!none);
  EXPECT_FALSE(!some);
  EXPECT_EQ(logical_not(some).op(), Op::kNot);
}

TEST(Expr, ScalarsSpreadBesideVectors) {
  const Expr v = var("v", DataType::f32().with_lanes(8));
  const Expr s = var("s", DataType::f32());
  EXPECT_EQ((v + s).type(), DataType::f32().with_lanes(8));
  EXPECT_EQ((s < v).type(), DataType::boolean().with_lanes(8));
  EXPECT_EQ(fma(s, v, s).type().lanes(), 8);
  EXPECT_EQ(select(s < s, v, s).type().lanes(), 8);
  EXPECT_EQ(load("A", DataType::f32(), {ramp(0, 1, 8)}).type(), DataType::f32().with_lanes(8));
  EXPECT_THROW(s + var("i"), InternalError);
  EXPECT_THROW(bitcast(DataType::i64(), s), InternalError);
}

TEST(Expr, EqualityIsStructural) {
  const Expr a = load("A", DataType::f32(), {var("i") * 4});
  EXPECT_TRUE(equal(a, load("A", DataType::f32(), {var("i") * 4})));
  EXPECT_FALSE(equal(a, load("B", DataType::f32(), {var("i") * 4})));
  EXPECT_FALSE(equal(a, load("A", DataType::f32(), {var("i") * 5})));
  EXPECT_FALSE(equal(a, Expr()));
  EXPECT_TRUE(equal(float_imm(NAN), float_imm(NAN)));
  EXPECT_FALSE(equal(float_imm(0.0), float_imm(-0.0)));
  EXPECT_FALSE(equal(int_imm(1), int_imm(1, DataType::i32())));
}

TEST(Expr, RewriteKeepsWhatIsUntouched) {
  const Expr i = var("i"), j = var("j");
  const Expr left = i * 4, right = floor_div(j, 3);
  const Expr e = left + right;
  EXPECT_TRUE(substitute(e, {{"k", Expr(1)}}).same(e));
  const Expr changed = substitute(e, {{"j", i}});
  EXPECT_TRUE(changed.arg(0).same(left));
  EXPECT_TRUE(equal(changed, i * 4 + floor_div(i, 3)));
  // All at once: i and j change places.
  EXPECT_TRUE(equal(substitute(i - j, {{"i", j}, {"j", i}}), j - i));
  EXPECT_TRUE(equal(substitute(i + var("k") * Expr(2), {{"i", j}, {"j", i}, {"k", Expr(0)}}), j))
      << "what folds to a variable";
  EXPECT_TRUE(uses_var(e, "j"));
  EXPECT_FALSE(uses_var(changed, "j"));
}

TEST(Expr, SubstitutedVectorsWidenTheirUsers) {
  const Expr i = var("i");
  const Expr e = select(i < 4, load("A", DataType::f32(), {i}), float_imm(0)) *
                 call("exp", {load("B", DataType::f32(), {Expr(0)})});
  const Expr wide = substitute(e, {{"i", ramp(0, 1, 8)}});
  EXPECT_EQ(wide.type(), DataType::f32().with_lanes(8));
  EXPECT_EQ(wide.arg(1).op(), Op::kBroadcast);
}

// A chain of doublings has 2^60 paths and 61 nodes.
TEST(Expr, TraversalsVisitSharedNodesOnce) {
  Expr e = var("x", DataType::f32());
  for (int k = 0; k < 60; ++k) e = e + e;
  int nodes = 0;
  visit(e, [&](const Expr&) { ++nodes; });
  EXPECT_EQ(nodes, 61);
  const Expr renamed = substitute(e, {{"x", var("y", DataType::f32())}});
  EXPECT_TRUE(uses_var(renamed, "y"));
  EXPECT_FALSE(uses_var(renamed, "x"));
  EXPECT_TRUE(equal(e, substitute(renamed, {{"y", var("x", DataType::f32())}})));
}

TEST(Eval, WrapsAndRounds) {
  const std::unordered_map<std::string, int64_t> values = {{"i", -7}, {"n", 120}};
  const auto eval = [&](const Expr& e, int lane = 0) { return eval_index(e, values, lane); };
  EXPECT_EQ(eval(floor_div(var("i"), 2)), -4);
  EXPECT_EQ(eval(var("i") / Expr(2)), -3);
  EXPECT_EQ(eval(floor_mod(var("i"), 4)), 1);
  EXPECT_EQ(eval(var("n", DataType(ScalarType::kI8)) + int_imm(10, DataType(ScalarType::kI8))), -126);
  EXPECT_EQ(eval(cast(DataType(ScalarType::kU8), var("i"))), 249);
  EXPECT_EQ(eval(var("i") < Expr(0)), 1);
  EXPECT_EQ(eval(logical_not(var("i") < Expr(0))), 0);
  EXPECT_EQ(eval(ramp(var("i"), 3, 4), 2), -1);
  EXPECT_EQ(eval(extract(ramp(var("i"), 3, 4), 3)), 2);
  EXPECT_THROW(eval(var("z")), InternalError);
  EXPECT_THROW(eval(floor_div(var("i"), Expr(0))), InternalError);
  EXPECT_THROW(eval(load("A", DataType::i64(), {var("i")})), InternalError);
}

}  // namespace
}  // namespace tw
