// Sums of exponentials relative to their row's maximum, block by block: the same numbers as all at once.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "schedule/schedule.h"
#include "support/error.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"
#include "tests/harness/te_programs.h"

namespace tw::schedule {
namespace {

using testing::Attention;
using testing::attention;
using testing::refused_for;

void expect_same(const te::Program& p, const Schedule& s, const te::ValueMap& inputs, double tolerance = 1e-5) {
  const loop::Program loops = apply(p, s);
  SCOPED_TRACE(loop::to_string(loops));
  EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(loops, inputs), tolerance), "");
}

// The parts of attention's rows in loop `at` of the result, their loops in `order`; all of a block's inside of its
// turn.
void blocks_inside(Schedule& s, const std::string& at, const std::vector<std::string>& order) {
  s.compute_at("out.row", "out", at, loop::Scope::kStack);
  s.reorder("out.row", order);
  for (const char* part : {"out.block", "sum.block", "most.exp", "most.block"})
    s.compute_at(part, "out.row", "r0", loop::Scope::kStack);
}

TEST(Online, BlocksThatDivideTheRowAndSuchThatDoNot) {
  for (const int64_t block : {1, 8, 12, 16, 40, 64}) {
    const te::Program p = attention({2, 1, 5, 40, 4, 12, true});
    expect_same(p, Schedule().online("most", block, 1, 1), testing::whole_inputs(p));
    expect_same(p, Schedule().online("most", block, 4, 2), testing::whole_inputs(p));
  }
}

// The sum has its axes in another order than the maximum: that of the memory it is written to.
TEST(Online, RowsInAnotherOrder) {
  const te::Program p = te::parse_program(R"(te transposed
input x: f32[3, 5, 12]
input v: f32[12, 3, 4]
m: f32[3, 5] = max(r0 in 12) over (i0, i1) of x[i0, i1, r0]
e: f32[3, 5, 12] (i0, i1, i2) = exp((x[i0, i1, i2] - m[i0, i1]))
l: f32[5, 3] = sum(r0 in 12) over (i0, i1) of e[i1, i0, r0]
o: f32[5, 3, 4] = sum(r0 in 12) over (i0, i1, i2) of ((e[i1, i0, r0] / l[i0, i1]) * v[r0, i1, i2])
output o
)");
  expect_same(p, Schedule().online("m", 5, 1, 1), testing::whole_inputs(p));
  expect_same(p, Schedule().online("m", 4, 2, 1), testing::whole_inputs(p));
}

// What holds the row's columns has its maximum and its sum, too.
TEST(Online, MembersHaveTheFirstAxesOnly) {
  const te::Program p = attention({1, 2, 6, 40, 4, 16, true});
  Schedule s = Schedule().online("most", 8, 4, 2);
  blocks_inside(s, "i1", {"i0", "i1", "r0", "i2", "i3", "i4"});
  expect_same(p, s, testing::whole_inputs(p));
  const std::string text = loop::to_string(apply(p, s));
  EXPECT_NE(text.find("alloc most.row: f32[1, 1, 4] stack"), std::string::npos) << text;
  EXPECT_NE(text.find("alloc out.row: f32[1, 1, 4, 2, 2] stack"), std::string::npos) << text;
  // Members that have fewer axes are combined after those whose values need what they were.
  EXPECT_LT(text.find("out.row[0, 0, out.row.i2, out.row.i3, out.row.i4] = out.row.next"),
            text.find("] = out.row.next2"));
}

// Rows of which nothing is left have no weights at all, as all at once; blocks of which nothing is left have none.
TEST(Online, ElementsThatAreMinusInfinity) {
  const te::Program p = attention({2, 1, 3, 24, 4, 8, true});
  te::ValueMap inputs = testing::whole_inputs(p);
  std::vector<double>& mask = inputs.at("mask").floats;
  for (size_t i = 0; i < 24; ++i) mask[i] = i < 8 || i == 20 ? -std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 24; i < 48; ++i) mask[i] = i == 40 ? 30000 : -10000;
  expect_same(p, Schedule().online("most", 8, 1, 1), inputs);
  for (size_t i = 0; i < 24; ++i) mask[i] = -std::numeric_limits<double>::infinity();
  const te::ValueMap want = te::evaluate(p, inputs);
  EXPECT_TRUE(std::isnan(want.at("out").floats[0]));
  expect_same(p, Schedule().online("most", 8, 4, 2), inputs);
}

// Blocks behind the last key that a query sees are left out, by the tile; rows that see nothing leave nothing out.
TEST(Online, BlocksThatNobodySeesAreLeftOut) {
  Attention causal = {1, 2, 40, 40, 4, 8, false};
  causal.causal = true;
  const auto loops_of = [&](const Attention& a) {
    const te::Program p = attention(a);
    Schedule s = Schedule().online("most", 8, 1, 1).split("out", "i1", {10});
    blocks_inside(s, "i1.0", {"i0", "r0", "i1", "i2", "i3", "i4"});
    expect_same(p, s, testing::whole_inputs(p));
    return loop::to_string(apply(p, s));
  };
  const std::string text = loops_of(causal);
  EXPECT_NE(text.find("if ((out.row.r0 * 4) < ((out.i1.0 * 5) + 5))"), std::string::npos) << text;
  causal.keys = 24;
  EXPECT_NE(loops_of(causal).find("if ("), std::string::npos);
  causal.mask = true;
  EXPECT_EQ(loops_of(causal).find("if ("), std::string::npos) << "it may make what is seen as low as what is not";
  causal.mask = causal.causal = false;
  EXPECT_EQ(loops_of(causal).find("if ("), std::string::npos);
}

// A mask that chooses among 16-bit scores chooses among what they were before they were rounded, and is known as one.
TEST(Online, MasksOfHalvesAreMasks) {
  const te::Program p = te::parse_program(R"(te halves
input q: f16[16, 4]
input k: f16[16, 4]
input v: f32[16, 4]
scores: f32[16, 16] = sum(r0 in 4) over (i0, i1) of (cast<f32>(q[i0, r0]) * cast<f32>(k[i1, r0]))
h: f16[16, 16] (i0, i1) = cast<f16>(scores[i0, i1])
b: f16[16, 16] (i0, i1) = select((i1 < (i0 + 1)), h[i0, i1], -inf:f16)
most: f32[16] = max(r0 in 16) over (i0) of cast<f32>(b[i0, r0])
e: f32[16, 16] (i0, i1) = exp((cast<f32>(b[i0, i1]) - most[i0]))
sum: f32[16] = sum(r0 in 16) over (i0) of e[i0, r0]
out: f32[16, 4] = sum(r0 in 16) over (i0, i1) of ((e[i0, r0] / sum[i0]) * v[r0, i1])
output out
)");
  Schedule s = Schedule().online("most", 4, 1, 1);
  blocks_inside(s, "i0", {"i0", "r0", "i1", "i2", "i3"});
  expect_same(p, s, testing::whole_inputs(p));
  const std::string text = loop::to_string(apply(p, s));
  EXPECT_NE(text.find("if ("), std::string::npos) << text;
  EXPECT_EQ(text.find("cast<f16>"), std::string::npos) << text;
}

// Rows without any element that is not minus infinity: 0 in place of NaN, where the model says so; NaN in values stays.
TEST(Online, RowsOfNothingAreZeroWhereThatIsGuarded) {
  const te::Program p = te::parse_program(R"(te guarded
input x: f32[4, 12]
input v: f32[12, 4]
m: f32[4] = max(r0 in 12) over (i0) of x[i0, r0]
e: f32[4, 12] (i0, i1) = exp((x[i0, i1] - m[i0]))
l: f32[4] = sum(r0 in 12) over (i0) of e[i0, r0]
p: f32[4, 12] (i0, i1) = (e[i0, i1] * (1:f32 / l[i0]))
z: f32[4, 12] (i0, i1) = select((p[i0, i1] != p[i0, i1]), 0:f32, p[i0, i1])
o: f32[4, 4] = sum(r0 in 12) over (i0, i1) of (z[i0, r0] * v[r0, i1])
output o
)");
  te::ValueMap inputs = testing::whole_inputs(p);
  std::vector<double>& x = inputs.at("x").floats;
  for (size_t j = 0; j < 12; ++j) x[j] = -std::numeric_limits<double>::infinity();
  te::ValueMap others = inputs;
  others.at("x").floats[24] = std::numeric_limits<double>::quiet_NaN();
  inputs.at("v").floats[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(te::evaluate(p, inputs).at("o").floats[0], 0);
  for (const int64_t block : {4, 5}) {
    expect_same(p, Schedule().online("m", block, 1, 1), inputs);
    expect_same(p, Schedule().online("m", block, 1, 1), others);
  }
}

// The blocks of a row in order, each with the maximum of all so far, and sums that go on.
Schedule carried(const Attention& a, int64_t block, int64_t each, int64_t width) {
  Schedule s = Schedule().online("most", block, each, width);
  if (a.queries > 2) s.split("out", "i1", {2});
  blocks_inside(s, a.queries > 2 ? "i1.0" : "i0", {"i0", "r0", "i1", "i2", "i3", "i4"});
  return s.carry("out.row");
}

TEST(Carry, PartsGoOnWhereThoseBeforeEnded) {
  for (const bool mask : {true, false}) {
    for (const int64_t block : {1, 8, 12, 40, 64}) {
      const Attention a = {2, 1, 5, 40, 4, 12, mask};
      const te::Program p = attention(a);
      expect_same(p, carried(a, block, 1, 1), testing::whole_inputs(p));
      expect_same(p, carried(a, block, 4, 2), testing::whole_inputs(p));
    }
  }
  Attention causal = {1, 2, 40, 40, 4, 8, false};
  causal.causal = true;
  expect_same(attention(causal), carried(causal, 8, 1, 1), testing::whole_inputs(attention(causal)));
}

TEST(Carry, OneFactorAStep) {
  const Attention a = {1, 2, 6, 40, 4, 16, true};
  const te::Program p = attention(a);
  const std::string text = loop::to_string(apply(p, carried(a, 8, 1, 1)));
  EXPECT_NE(text.find("let out.row.next0 = out.block["), std::string::npos) << text;
  EXPECT_NE(text.find("let out.row.next2 = max(most.row["), std::string::npos) << text;
  EXPECT_NE(text.find("] = (out.row["), std::string::npos) << text;  // what out.block begins with
}

// Blocks before the first element that is left, and behind the last one; rows of nothing.
TEST(Carry, ElementsThatAreMinusInfinity) {
  const Attention a = {2, 1, 3, 24, 4, 8, true};
  const te::Program p = attention(a);
  te::ValueMap inputs = testing::whole_inputs(p);
  std::vector<double>& mask = inputs.at("mask").floats;
  const double lowest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < 24; ++i) mask[i] = i < 8 || i == 20 ? lowest : 0;
  for (size_t i = 24; i < 48; ++i) mask[i] = i < 28 ? 0 : lowest;
  expect_same(p, carried(a, 4, 1, 1), inputs);
  for (size_t i = 24; i < 48; ++i) mask[i] = i == 40 ? 30000 : -10000;
  expect_same(p, carried(a, 8, 1, 1), inputs);
  for (size_t i = 0; i < 24; ++i) mask[i] = lowest;
  EXPECT_TRUE(std::isnan(te::evaluate(p, inputs).at("out").floats[0]));
  expect_same(p, carried(a, 8, 4, 2), inputs);
}

// Masks by a number as low as can be beside a scale: a row, or a block of it, of which nothing is left has exponentials
// of 0, each 1, not of what rounding leaves of such a number.
TEST(Carry, LowMasksBesideAScale) {
  for (const int keys : {40, 32})  // of 32 the last row sees none
    for (const char* low : {"-1e+30", "-3.4028235e+38", "-65504", "-inf"}) {
      for (const char* scale : {"0.125", "0.17677669", "0.088388346", "0.0625"}) {
        const te::Program p = te::parse_program(fmt::format(R"(te masked
input q: f16[7, 4]
input k: f16[{2}, 4]
input v: f16[{2}, 8]
s: f32[7, {2}] = sum(r0 in 4) over (i0, i1) of (cast<f32>(q[i0, r0]) * cast<f32>(k[i1, r0]))
x: f32[7, {2}] (i0, i1) = select((((i0 * 6) <= i1) && (i1 < ((i0 * 6) + 9))), (s[i0, i1] * {1}:f32), {0}:f32)
most: f32[7] = max(r0 in {2}) over (i0) of x[i0, r0]
e: f32[7, {2}] (i0, i1) = exp((x[i0, i1] - most[i0]))
sum: f32[7] = sum(r0 in {2}) over (i0) of e[i0, r0]
w: f16[7, {2}] (i0, i1) = cast<f16>((e[i0, i1] / sum[i0]))
out: f32[7, 8] = sum(r0 in {2}) over (i0, i1) of (cast<f32>(w[i0, r0]) * cast<f32>(v[r0, i1]))
output out
)",
                                                            low, scale, keys));
        Schedule s = Schedule().online("most", 8, 1, 1).split("out", "i0", {1});
        blocks_inside(s, "i0.0", {"i0", "r0", "i1", "i2", "i3"});
        SCOPED_TRACE(fmt::format("{} beside {}, {} keys", low, scale, keys));
        te::ValueMap inputs = testing::whole_inputs(p);
        expect_same(p, s, inputs, 2e-2);
        expect_same(p, s.carry("out.row"), inputs, 2e-2);
      }
    }
}

TEST(Carry, SaysWhatItCannotCarry) {
  const te::Program p = attention({1, 1, 5, 16, 4, 8, false});
  EXPECT_EQ(refused_for(p, Schedule().carry("sum")), "carry: sum is no reduction over a tuple by one axis");
  EXPECT_EQ(refused_for(p, Schedule().online("most", 8, 1, 1).carry("out.row")),
            "carry: out.row combines no maximum of what is attached in it");
}

TEST(Online, SaysWhatItCannotRewrite) {
  const te::Program p = attention({1, 1, 5, 16, 4, 8, false});
  EXPECT_EQ(refused_for(p, Schedule().online("sum", 8, 1, 1)), "sum is no maximum of a row of floats");
  EXPECT_EQ(refused_for(testing::matmul_relu(4, 4, 4), Schedule().online("x", 8, 1, 1)),
            "x is no maximum of a row of floats");
  const te::Program other = te::parse_program(R"(te other
input x: f32[4, 9]
m: f32[4] = max(r0 in 9) over (i0) of x[i0, r0]
s: f32[4] = sum(r0 in 9) over (i0) of (x[i0, r0] - m[i0])
output s
)");
  EXPECT_EQ(refused_for(other, Schedule().online("m", 3, 1, 1)), "s depends in another way on m");
}

// What there is once a row, and weights that are left out.
TEST(Online, StatisticsLeaveAndTermsAreLeftOut) {
  for (const int64_t block : {1, 8, 12, 40}) {
    for (const DataType type : {DataType::f32(), DataType::f16()}) {
      Attention a{2, 1, 5, 40, 4, 12, true, type};
      a.statistics = a.drops = true;
      const te::Program p = attention(a);
      expect_same(p, Schedule().online("most", block, 1, 1), testing::whole_inputs(p), 1e-2);
      expect_same(p, Schedule().online("most", block, 4, 2), testing::whole_inputs(p), 1e-2);
    }
  }
}

TEST(Whole, RoundsOnlyWhatIsStored) {
  const te::Program p = te::parse_program(R"(te rounded
input x: f32[8]
s: f32[8] (i0) = (cast<f32>(cast<f16>(x[i0])) * 0.5:f32)
y: f16[8] (i0) = cast<f16>(cast<f32>(cast<f16>(s[i0])))
m: f32[] = max(r0 in 8) over () of cast<f32>(y[r0])
output y, m
)");
  const std::string text = loop::to_string(apply(p, Schedule().inline_stage("s").whole("y")));
  EXPECT_NE(text.find("= cast<f16>((x[y.i0] * 0.5:f32))"), std::string::npos) << text;
  EXPECT_EQ(refused_for(p, Schedule().whole("m")), "whole: stage m combines elements");
}

TEST(Whole, ChoicesBetweenRoundedNumbersToo) {
  const te::Program p = te::parse_program(R"(te masked
input x: f32[8]
y: f16[8] (i0) = cast<f16>((cast<f32>(select((i0 < 5), cast<f16>((x[i0] * 0.5:f32)), -inf:f16)) + 1:f32))
z: f16[8] (i0) = select((i0 < 5), cast<f16>((x[i0] * 2:f32)), 0:f16)
output y, z
)");
  const std::string text = loop::to_string(apply(p, Schedule().whole("y").whole("z")));
  EXPECT_NE(text.find("= cast<f16>(select((z.i0 < 5), (x[z.i0] * 2:f32), 0:f32))"), std::string::npos) << text;
  EXPECT_NE(text.find("cast<f16>((select((y.i0 < 5), (x[y.i0] * 0.5:f32), -inf:f32) + 1:f32))"), std::string::npos)
      << text;
}

TEST(Online, ItsProgramIsText) {
  const te::Program p = te::parse_program(R"(te members
input x: f32[4, 9]
o: f32[4, 9], m: f32[4] = tuple(r0 in 9) from (0:f32, -inf:f32) over (i0, i1) of (x[i0, i1], x[i0, r0]) by (a, b), (c, d) -> ((a + (c * b)), max(b, d))
output o, m
)");
  EXPECT_EQ(te::to_string(te::parse_program(te::to_string(p))), te::to_string(p));
  const te::ValueMap inputs = testing::whole_inputs(p);
  EXPECT_EQ(te::evaluate(p, inputs).at("m").floats.size(), 4U);
  EXPECT_THROW(te::parse_program(R"(te members
input x: f32[4, 9]
o: f32[4, 9], m: f32[4] = tuple(r0 in 9) from (0:f32, -inf:f32) over (i0, i1) of (x[i0, i1], x[i0, i1]) by (a, b), (c, d) -> (a, b)
output o
)"),
               std::exception)
      << "m does not have i1";
}

}  // namespace
}  // namespace tw::schedule
