#include "expr/analyzer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "expr/affine.h"
#include "expr/parser.h"
#include "random_expr.h"
#include "tests/harness/eval_index.h"

namespace tw {
namespace {

ExprScope scope() {
  ExprScope s;
  s.tensor_type = [](const std::string& name) {
    return std::optional(name == "I" ? DataType::i64() : DataType::f32());
  };
  s.var_type = [](const std::string& name) {
    if (name == "f") return DataType::f32();
    if (name == "p" || name == "q") return DataType::boolean();
    return name == "n" ? DataType::i32() : DataType::i64();
  };
  return s;
}

Expr parse(std::string_view text) { return parse_expr(text, scope()); }

// i in [0,16), j in [0,49), k in [0,64), x in [0,1000), y in [0,16), z in [0,4), s in [-5,5), one in [3,3]; u is
// unknown.
class AnalyzerTest : public ::testing::Test {
 protected:
  AnalyzerTest() {
    analyzer.bind("i", 0, 16);
    analyzer.bind("j", 0, 49);
    analyzer.bind("k", 0, 64);
    analyzer.bind("x", 0, 1000);
    analyzer.bind("y", 0, 16);
    analyzer.bind("z", 0, 4);
    analyzer.bind("s", -5, 10);
    analyzer.bind("one", 3, 1);
  }
  std::string simple(std::string_view text) const { return to_string(analyzer.simplify(parse(text))); }
  Interval bounds(std::string_view text) const { return analyzer.bounds(parse(text)); }
  Analyzer analyzer;
};

TEST_F(AnalyzerTest, SumsAreCanonical) {
  EXPECT_EQ(simple("3 + x*16 + y"), "(((x * 16) + y) + 3)");
  EXPECT_EQ(simple("y + 3 + x*8 + 8*x"), "(((x * 16) + y) + 3)");
  EXPECT_EQ(simple("x - x"), "0");
  EXPECT_EQ(simple("x*2 - y*3 - x - 4"), "((x - (y * 3)) - 4)");
  EXPECT_EQ(simple("-x + 7"), "(7 - x)");
  EXPECT_EQ(simple("-(x - 7)"), "(7 - x)");
  EXPECT_EQ(simple("-x - 7"), "(-(x) - 7)");
  EXPECT_EQ(simple("one * x + one"), "((x * 3) + 3)");
  EXPECT_EQ(simple("(2*x)*(u*3)"), "((u * x) * 6)");
  EXPECT_EQ(simple("(x + y) * 4 - y * 4"), "(x * 4)");
}

TEST_F(AnalyzerTest, DividesTiles) {
  EXPECT_EQ(simple("floordiv(x*16 + y, 16)"), "x");
  EXPECT_EQ(simple("(x*16 + y) % 16"), "y");
  EXPECT_EQ(simple("floordiv(x*64 + z*16 + y, 16)"), "((x * 4) + z)");
  EXPECT_EQ(simple("floordiv(x*64 + z*16 + y, 32)"), "((x * 2) + floordiv(z, 2))");
  EXPECT_EQ(simple("(x*64 + z*16 + y) % 32"), "((floormod(z, 2) * 16) + y)");
  EXPECT_EQ(simple("floordiv(x*16 - y - 1, 16)"), "(x - 1)");
  EXPECT_EQ(simple("floordiv(x*16 - y, 16)"), "(x + floordiv(-(y), 16))");
  EXPECT_EQ(simple("floordiv(floordiv(x, 4), 8)"), "floordiv(x, 32)");
  EXPECT_EQ(simple("floordiv(floordiv(x, 4) + 3, 8)"), "floordiv((x + 12), 32)");
  EXPECT_EQ(simple("(x % 32) % 8"), "floormod(x, 8)");
  EXPECT_EQ(simple("floordiv(x % 32, 8)"), "floormod(floordiv(x, 8), 4)");
  EXPECT_EQ(simple("(x*6) % 9"), "(floormod(-(x), 3) * 3)");
  EXPECT_EQ(simple("floordiv(x, 1000)"), "0");
  EXPECT_EQ(simple("x % 1000"), "x");
  EXPECT_EQ(simple("floordiv(x*17 + y, 16)"), "floordiv(((x * 17) + y), 16)");
  EXPECT_EQ(simple("floordiv(u*16 + y, 16)"), "u");
  EXPECT_EQ(simple("(x + 35) % 16"), "floormod((x + 3), 16)");
  EXPECT_EQ(simple("floordiv(x + 35, 16)"), "(floordiv((x + 3), 16) + 2)");
  EXPECT_EQ(simple("floordiv(x, -4)"), simple("floordiv(-x, 4)"));
}

TEST_F(AnalyzerTest, JoinsQuotientAndRemainder) {
  EXPECT_EQ(simple("floordiv(x, 4) * 4 + x % 4"), "x");
  EXPECT_EQ(simple("floordiv(x, 4) * 12 + (x % 4) * 3 + 5"), "((x * 3) + 5)");
  EXPECT_EQ(simple("x - floordiv(x, 4) * 4"), "floormod(x, 4)");
  EXPECT_EQ(simple("x - x % 4"), "(floordiv(x, 4) * 4)");
  EXPECT_EQ(simple("(floordiv(x, 4) % 8) * 4 + x % 4"), "floormod(x, 32)");
  EXPECT_EQ(simple("floordiv(x, 64) * 64 + (floordiv(x, 8) % 8) * 8 + x % 8"), "x");
  EXPECT_EQ(simple("floordiv(x + j, 4) * 4 + (x + j) % 4"), "(j + x)");
}

TEST_F(AnalyzerTest, UnravelsWhatWasRavelled) {
  const std::string flat = "(i*64*49 + k*49 + j)";
  EXPECT_EQ(simple("floordiv(" + flat + ", 3136)"), "i");
  EXPECT_EQ(simple("floordiv(" + flat + ", 49) % 64"), "k");
  EXPECT_EQ(simple(flat + " % 49"), "j");
  EXPECT_EQ(simple("(" + flat + " % 3136)"), "((k * 49) + j)");
  // [16, 64] seen as [16, 4, 16], then merged and split in another way.
  EXPECT_EQ(simple("floordiv(floordiv(i*64 + k, 16) % 4 * 16 + (i*64 + k) % 16, 64)"), "0");
  EXPECT_EQ(simple("floordiv(i*64 + k, 64) * 64 + floordiv(i*64 + k, 16) % 4 * 16 + (i*64 + k) % 16"),
            "((i * 64) + k)");
  // [6, 4] -> [8, 3] -> [6, 4]: a*4 + b through extents that do not divide.
  analyzer.bind("a", 0, 6);
  analyzer.bind("b", 0, 4);
  EXPECT_EQ(simple("floordiv(floordiv(a*4 + b, 3) * 3 + (a*4 + b) % 3, 4)"), "a");
  EXPECT_EQ(simple("(floordiv(a*4 + b, 3) * 3 + (a*4 + b) % 3) % 4"), "b");
  // Some digits of a number and others of its quotient.
  EXPECT_EQ(simple("floordiv(4*i + floordiv(x, 4), 11)*44 + floormod(16*i + x, 44)"), "((i * 16) + x)");
  EXPECT_EQ(simple("floormod(floordiv(4*i + floordiv(x, 4), 11), 17)*44 + floormod(16*i + x, 44)"),
            "floormod(((i * 16) + x), 748)");
  EXPECT_EQ(simple("floordiv(4*i + floordiv(x, 4), 187)*748 + floormod(floordiv(4*i + floordiv(x, 4), 11), 17)*44 + "
                   "floormod(4*i + floordiv(x, 4), 11)*4 + floormod(x, 4)"),
            "((i * 16) + x)");
  EXPECT_EQ(simple("floordiv(x, 44)*11 + floormod(floordiv(x, 4), 11)"), "floordiv(x, 4)");
  EXPECT_EQ(simple("floormod(floordiv(x, 44), 7)*11 + floormod(floordiv(x, 4), 11)"), "floormod(floordiv(x, 4), 77)");
  EXPECT_EQ(simple("floordiv(x, 45)*11 + floormod(floordiv(x, 4), 11)"),
            "((floordiv(x, 45) * 11) + floormod(floordiv(x, 4), 11))");
}

TEST_F(AnalyzerTest, DecidesComparisons) {
  EXPECT_EQ(simple("x*16 + y < 128"), "(x < 8)");
  EXPECT_EQ(simple("x*16 + y < 120"), "(((x * 16) + y) < 120)");
  EXPECT_EQ(simple("x*16 + y < 16000"), "true");
  EXPECT_EQ(simple("x*16 + y >= 0"), "true");
  EXPECT_EQ(simple("z*14 + y < 58"), "true");
  EXPECT_EQ(simple("z*14 + y < 57"), "(((z * 14) + y) < 57)");
  EXPECT_EQ(simple("x + 1 <= x"), "false");
  EXPECT_EQ(simple("x <= x + y"), "true");
  EXPECT_EQ(simple("x <= 4"), "(x < 5)");
  EXPECT_EQ(simple("2 <= x"), "(2 <= x)");
  EXPECT_EQ(simple("x > 1"), "(2 <= x)");
  EXPECT_EQ(simple("x*2 < 7"), "(x < 4)");
  EXPECT_EQ(simple("x < y + 3"), "(x < (y + 3))");
  EXPECT_EQ(simple("x - y - 3 < 0"), "(x < (y + 3))");
  EXPECT_EQ(simple("x*4 == 8"), "(x == 2)");
  EXPECT_EQ(simple("x*4 == 9"), "false");
  EXPECT_EQ(simple("x*16 + y*4 + 2 == 32"), "false");
  EXPECT_EQ(simple("x != 1000"), "true");
  EXPECT_EQ(simple("floordiv(x, 16) * 16 <= x"), "true");
  EXPECT_EQ(simple("min(x, y) <= x"), "true");
  EXPECT_EQ(simple("x + y < max(x, 2) + 16"), "true");
  EXPECT_EQ(simple("u < u + 1"), "true");
}

TEST_F(AnalyzerTest, SimplifiesLogicMinMaxSelect) {
  EXPECT_EQ(simple("x < 5 && x < 3"), "(x < 3)");
  EXPECT_EQ(simple("x < 5 || x < 3"), "(x < 5)");
  EXPECT_EQ(simple("x < 3 && x >= 3"), "false");
  EXPECT_EQ(simple("x < 3 || 3 <= x"), "true");
  EXPECT_EQ(simple("x < 3 && 5 < x"), "false");
  EXPECT_EQ(simple("p && !p"), "false");
  EXPECT_EQ(simple("p && q && p"), "(p && q)");
  EXPECT_EQ(simple("!(x < 3)"), "(3 <= x)");
  EXPECT_EQ(simple("!(f < 3:f32)"), "!((f < 3:f32))");
  EXPECT_EQ(simple("0 <= x && x < 1000 && x < 7"), "(x < 7)");
  EXPECT_EQ(simple("min(x, 1000)"), "x");
  EXPECT_EQ(simple("max(x, x + 2)"), "(x + 2)");
  EXPECT_EQ(simple("min(min(x, 7), 5)"), "min(x, 5)");
  EXPECT_EQ(simple("min(min(x, y), y)"), "min(x, y)");
  EXPECT_EQ(simple("max(min(x, 999), 0)"), "x");
  EXPECT_EQ(simple("select(x < 1000, x, y)"), "x");
  EXPECT_EQ(simple("select(x < y, x, x)"), "x");
  EXPECT_EQ(simple("select(x < 8, select(x < 9, 1, 2), floordiv(x, 8))"), "select((x < 8), 1, floordiv(x, 8))");
  EXPECT_EQ(simple("select(x < 8, floordiv(x, 8), 1)"), "select((x < 8), 0, 1)");
  EXPECT_EQ(simple("select(x == y, A[x*16 % 16], 0:f32)"), "select((x == y), A[0], 0:f32)");
}

TEST_F(AnalyzerTest, WorksInsideFloatsAndKeepsTheirBits) {
  EXPECT_EQ(simple("A[floordiv(x*16 + y, 16), (x*16 + y) % 16] * 1:f32 + exp(f)"), "(A[x, y] + exp(f))");
  EXPECT_EQ(simple("f + 0:f32"), "(f + 0:f32)");
  EXPECT_EQ(simple("f - 0:f32"), "f");
  EXPECT_EQ(simple("f * 0:f32"), "(f * 0:f32)");
  EXPECT_EQ(simple("f - f"), "(f - f)");
  EXPECT_EQ(simple("(f + 1:f32) + 2:f32"), "((f + 1:f32) + 2:f32)");
  EXPECT_EQ(simple("f == f"), "(f == f)");
  EXPECT_EQ(simple("cast<f32>(3 + 4)"), "7:f32");
  EXPECT_EQ(simple("cast<f16>(0.1:f32)"), "0.099975586:f16");
  EXPECT_EQ(simple("cast<i32>(3.9:f32)"), "3:i32");
  EXPECT_EQ(simple("cast<i32>(-inf:f32)"), "-2147483648:i32");
  EXPECT_EQ(simple("cast<u8>(300:f32)"), "255:u8");
  EXPECT_EQ(simple("(A[x] if x < 1000)"), "A[x]");
  EXPECT_EQ(simple("(A[x] if x < 0)"), "0:f32");
}

TEST_F(AnalyzerTest, TakesNarrowIntegersAndDataAsTheyWrap) {
  EXPECT_EQ(simple("floordiv(n*16:i32, 16:i32)"), "floordiv((n * 16:i32), 16:i32)");
  EXPECT_EQ(simple("n + 0:i32"), "n");
  EXPECT_EQ(simple("cast<i64>(cast<i32>(x))"), "x");
  EXPECT_EQ(simple("cast<i64>(cast<u8>(x))"), "cast<i64>(cast<u8>(x))");
  // A load may be any i64: 16*I wraps.
  EXPECT_EQ(simple("floordiv(I[x]*16, 16)"), "floordiv((I[x] * 16), 16)");
  EXPECT_EQ(simple("I[x] < I[x] + 1"), "(I[x] < (I[x] + 1))");
  EXPECT_EQ(simple("floordiv(min(max(I[x], 0), 9)*16 + y, 16)"), "min(max(I[x], 0), 9)");
  EXPECT_EQ(simple("I[x] - I[x]"), "0");
}

TEST_F(AnalyzerTest, SimplifiesVectors) {
  EXPECT_EQ(simple("ramp(x, 1, 16) + broadcast(y, 16)"), "ramp((x + y), 1, 16)");
  EXPECT_EQ(simple("ramp(x, 2, 16) * broadcast(4, 16)"), "ramp((x * 4), 8, 16)");
  EXPECT_EQ(simple("broadcast(x, 8) + broadcast(1, 8)"), "broadcast((x + 1), 8)");
  EXPECT_EQ(simple("ramp(x, 0, 8)"), "broadcast(x, 8)");
  EXPECT_EQ(simple("floordiv(ramp(x*16, 1, 16), broadcast(16, 16))"), "broadcast(x, 16)");
  EXPECT_EQ(simple("ramp(x*16, 1, 16) % broadcast(16, 16)"), "ramp(0, 1, 16)");
  EXPECT_EQ(simple("ramp(x*16, 1, 16) % broadcast(8, 16)"), "floormod(ramp(0, 1, 16), broadcast(8, 16))");
  EXPECT_EQ(simple("ramp(0, 1, 16) < broadcast(16, 16)"), "broadcast(true, 16)");
  EXPECT_EQ(simple("ramp(x*16, 1, 16) < broadcast(128, 16)"), "broadcast((x < 8), 16)");
  EXPECT_EQ(simple("ramp(x*16, 1, 16) < broadcast(120, 16)"), "(ramp((x * 16), 1, 16) < broadcast(120, 16))");
  EXPECT_EQ(simple("A[ramp(x, 1, 8) + broadcast(0, 8)]"), "A[ramp(x, 1, 8)]");
  EXPECT_EQ(simple("(A[ramp(z, 1, 8)] if ramp(z, 1, 8) < broadcast(11, 8))"), "A[ramp(z, 1, 8)]");
  EXPECT_EQ(simple("I[ramp(x, 1, 8)] + broadcast(0, 8) + ramp(2, 1, 8) - ramp(0, 1, 8)"),
            "(broadcast(2, 8) + I[ramp(x, 1, 8)])");
  EXPECT_EQ(simple("ramp(0, u, 4) * broadcast(2, 4)"), "ramp(0, (u * 2), 4)");
  EXPECT_EQ(simple("extract(ramp(x, 3, 4), 2)"), "(x + 6)");
  EXPECT_EQ(simple("select(ramp(0, 1, 4) < broadcast(4, 4), ramp(x, 1, 4), ramp(y, 1, 4))"), "ramp(x, 1, 4)");
}

TEST_F(AnalyzerTest, BoundsAndProofs) {
  const auto proves = [&](const Expr& condition) {
    const Expr simple = analyzer.simplify(condition);
    return simple.is_int(1) || (simple.op() == Op::kBroadcast && simple.arg(0).is_int(1));
  };
  const auto is = [](Interval r, int64_t lo, int64_t hi) { return r.lo == lo && r.hi == hi; };
  EXPECT_TRUE(is(bounds("x*16 + y"), 0, 15999));
  EXPECT_TRUE(is(bounds("x - y"), -15, 999));
  EXPECT_TRUE(is(bounds("s*s"), -20, 25));
  EXPECT_TRUE(is(bounds("floordiv(s, 2)"), -3, 2));
  EXPECT_TRUE(is(bounds("s % 7"), 0, 6));
  EXPECT_TRUE(is(bounds("x - floordiv(x, 4)*4"), 0, 3));
  EXPECT_TRUE(is(bounds("min(x, 7)"), 0, 7));
  EXPECT_TRUE(is(bounds("select(x < y, 3, s)"), -5, 4));
  EXPECT_TRUE(is(bounds("x < 5"), 0, 1));
  EXPECT_TRUE(is(bounds("ramp(x, -2, 4)"), -6, 999));
  EXPECT_TRUE(is(bounds("u"), Interval::kMin, Interval::kMax));
  EXPECT_TRUE(is(bounds("n"), INT32_MIN, INT32_MAX));
  EXPECT_TRUE(is(bounds("n + 1:i32"), INT32_MIN, INT32_MAX));
  EXPECT_TRUE(is(bounds("cast<u8>(f)"), 0, 255));
  EXPECT_TRUE(proves(parse("x < 1000")));
  EXPECT_FALSE(proves(parse("x < 999")));
  EXPECT_TRUE(proves(parse("x*16 + y < 16000 && 0 <= y")));
  EXPECT_TRUE(proves(parse("ramp(x, 1, 8) < broadcast(1007, 8)")));
  analyzer.unbind("x");
  EXPECT_FALSE(proves(parse("x < 1000")));
}

TEST_F(AnalyzerTest, KeepsTheNodeWhenNothingChanges) {
  for (const char* text :
       {"x", "((x * 16) + y)", "floordiv((x + 3), 7)", "(A[x, y] + exp(f))", "(x < 8)", "ramp(x, 1, 8)", "min(x, y)",
        "select((x < 8), A[x], 0:f32)", "((x < 8) && (y < 3))", "(I[x] < (I[x] + 1))"}) {
    const Expr e = parse(text);
    EXPECT_TRUE(analyzer.simplify(e).same(e)) << text;
  }
}

TEST(Linear, FindsSumsOfVariables) {
  const auto form = as_linear(parse("x*3 + 4 - (y - x)*2"));
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->constant, 4);
  EXPECT_EQ(form->terms, (std::vector<std::pair<std::string, int64_t>>{{"x", 5}, {"y", -2}}));
  EXPECT_TRUE(as_linear(parse("7"))->terms.empty());
  EXPECT_FALSE(as_linear(parse("floordiv(x, 2)")).has_value());
  EXPECT_FALSE(as_linear(parse("x*y")).has_value());
  EXPECT_FALSE(as_linear(parse("I[x]")).has_value());
}

// ---- Properties on random expressions.

class AnalyzerProperty : public ::testing::TestWithParam<int> {};

TEST_P(AnalyzerProperty, IndexKeepsItsValue) {
  testing::Random random(1000 + GetParam());
  for (int round = 0; round < 1500; ++round) {
    const auto ranges = testing::random_ranges(random);
    Analyzer analyzer;
    for (const auto& r : ranges) analyzer.bind(r.name, r.lo, r.extent);
    const Expr e = testing::random_index(random, ranges, 2 + round % 4);
    const Expr simple = analyzer.simplify(e);
    const Interval range = analyzer.bounds(e);
    for (int k = 0; k < 20; ++k) {
      const auto point = testing::random_point(random, ranges);
      const int64_t value = eval_index(e, point);
      ASSERT_EQ(eval_index(simple, point), value) << to_string(e) << "\n" << to_string(simple);
      ASSERT_LE(range.lo, value) << to_string(e);
      ASSERT_GE(range.hi, value) << to_string(e);
    }
    const Expr again = analyzer.simplify(simple);
    ASSERT_TRUE(again.same(simple)) << to_string(e) << "\n" << to_string(simple) << "\n" << to_string(again);
  }
}

TEST_P(AnalyzerProperty, ConditionKeepsItsValue) {
  testing::Random random(2000 + GetParam());
  for (int round = 0; round < 1500; ++round) {
    const auto ranges = testing::random_ranges(random);
    Analyzer analyzer;
    for (const auto& r : ranges) analyzer.bind(r.name, r.lo, r.extent);
    const Expr e = testing::random_condition(random, ranges, 3);
    const Expr simple = analyzer.simplify(e);
    for (int k = 0; k < 20; ++k) {
      const auto point = testing::random_point(random, ranges);
      ASSERT_EQ(eval_index(simple, point), eval_index(e, point)) << to_string(e) << "\n" << to_string(simple);
    }
  }
}

// A vector made of an index expression by putting a ramp in place of `l`.
TEST_P(AnalyzerProperty, VectorKeepsItsLanes) {
  testing::Random random(3000 + GetParam());
  for (int round = 0; round < 600; ++round) {
    const auto ranges = testing::random_ranges(random);
    Analyzer analyzer;
    for (const auto& r : ranges) analyzer.bind(r.name, r.lo, r.extent);
    const Expr scalar =
        random.chance(60) ? testing::random_index(random, ranges, 4) : testing::random_condition(random, ranges, 1);
    const int lanes = 8;
    const Expr lane = ramp(var("i") * int_imm(random.between(0, 16)), int_imm(random.between(-2, 3)), lanes);
    const Expr e = substitute(scalar, {{"l", lane}});
    const Expr simple = analyzer.simplify(e);
    ASSERT_EQ(simple.type(), e.type());
    for (int k = 0; k < 8; ++k) {
      const auto point = testing::random_point(random, ranges);
      for (int l = 0; l < e.type().lanes(); ++l) {
        ASSERT_EQ(eval_index(simple, point, l), eval_index(e, point, l)) << to_string(e) << "\n" << to_string(simple);
      }
    }
  }
}

// Any chain of reshapes that ends in the first shape gives back the first indices.
TEST_P(AnalyzerProperty, ReshapeThereAndBackIsTheIdentity) {
  testing::Random random(4000 + GetParam());
  const std::vector<std::vector<std::vector<int64_t>>> families = {
      {{16, 64, 49}, {1024, 49}, {50176}, {4, 4, 64, 7, 7}, {8, 128, 49}, {32, 32, 7, 7}},
      {{6, 4}, {8, 3}, {24}, {2, 3, 2, 2}, {12, 2}},
      {{7, 9, 5}, {315}, {21, 15}, {3, 21, 5}, {9, 35}, {45, 7}},
      {{1, 1000}, {10, 100}, {8, 125}, {1000, 1}, {25, 2, 20}},
  };
  for (int round = 0; round < 100; ++round) {
    const auto& family = random.pick(families);
    const auto start = random.pick(family);
    Analyzer analyzer;
    std::vector<Expr> index;
    const auto name = [](size_t d) { return fmt::format("i{}", d); };
    for (size_t d = 0; d < start.size(); ++d) {
      analyzer.bind(name(d), 0, start[d]);
      index.push_back(var(name(d)));
    }
    std::vector<int64_t> shape = start;
    const auto reshape = [&](const std::vector<int64_t>& to) {
      Expr flat = 0;
      for (size_t d = 0; d < shape.size(); ++d) flat = flat * int_imm(shape[d]) + index[d];
      index.clear();
      int64_t stride = 1;
      for (int64_t extent : to) stride *= extent;
      for (int64_t extent : to) {
        stride /= extent;
        index.push_back(floor_mod(floor_div(flat, int_imm(stride)), int_imm(extent)));
      }
      shape = to;
    };
    const int64_t steps = random.between(1, 4);
    for (int64_t s = 0; s < steps; ++s) reshape(random.pick(family));
    reshape(start);
    for (size_t d = 0; d < start.size(); ++d) {
      const Expr simple = analyzer.simplify(index[d]);
      const std::string wanted = start[d] == 1 ? "0" : name(d);
      ASSERT_EQ(to_string(simple), wanted) << steps << " steps";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnalyzerProperty, ::testing::Range(0, 8));

// Long sums and deep nests stay far from quadratic: both finish at once.
TEST(Linear, CoefficientOfOneVariable) {
  EXPECT_EQ(coefficient_of(parse("x*3 + floordiv(y, 2) - x"), "x"), 2);
  EXPECT_EQ(coefficient_of(parse("floordiv(y, 2)"), "x"), 0);
  EXPECT_EQ(coefficient_of(parse("x + floordiv(x, 2)"), "x"), std::nullopt);
}

TEST(AnalyzerSpeed, LongExpressions) {
  Analyzer analyzer;
  Expr sum = 0;
  Expr nest = var("v0");
  for (int k = 0; k < 4000; ++k) {
    const std::string name = fmt::format("v{}", k);
    analyzer.bind(name, 0, 8);
    sum = sum + var(name) * int_imm(k + 1);
  }
  for (int k = 0; k < 300; ++k) nest = min(nest + 1, var(fmt::format("v{}", k)) * 3);
  const auto start = std::chrono::steady_clock::now();
  analyzer.simplify(sum);
  analyzer.simplify(nest);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace tw
