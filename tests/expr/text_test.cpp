#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "expr/elementary.h"
#include "expr/parser.h"
#include "random_expr.h"
#include "support/error.h"

namespace tw {
namespace {

// Names tell their types: f, g are f32 variables, h f16, p bool, v an f32x16; A, B, "a/b" f32 and I i64 tensors.
ExprScope scope() {
  ExprScope s;
  s.tensor_type = [](const std::string& name) -> std::optional<DataType> {
    if (name == "A" || name == "B" || name == "a/b") return DataType::f32();
    if (name == "I") return DataType::i64();
    return std::nullopt;
  };
  s.var_type = [](const std::string& name) {
    if (name == "f" || name == "g") return DataType::f32();
    if (name == "h") return DataType::f16();
    if (name == "p") return DataType::boolean();
    if (name == "n") return DataType::i32();
    return name == "v" ? DataType::f32().with_lanes(16) : DataType::i64();
  };
  return s;
}

void expect_round_trip(const Expr& e) {
  const std::string text = to_string(e);
  const Expr back = parse_expr(text, scope());
  EXPECT_TRUE(equal(e, back)) << text << "\n" << to_string(back);
}

std::string error_of(std::string_view text) {
  try {
    parse_expr(text, scope());
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExprText, PrintsWhatTheHeaderSays) {
  const Expr i = var("i"), j = var("j"), f = var("f", DataType::f32());
  EXPECT_EQ(to_string(i + 4), "(i + 4)");
  EXPECT_EQ(to_string(load("A", DataType::f32(), {i, j * 4})), "A[i, (j * 4)]");
  EXPECT_EQ(to_string(load_if("a/b", DataType::f32(), {i}, i < 3)), "(\"a/b\"[i] if (i < 3))");
  EXPECT_EQ(to_string(call("exp", {f})), "exp(f)");
  EXPECT_EQ(to_string(select(i < j, i, j)), "select((i < j), i, j)");
  EXPECT_EQ(to_string(cast(DataType::f16(), f)), "cast<f16>(f)");
  EXPECT_EQ(to_string(floor_div(i, 16)), "floordiv(i, 16)");
  EXPECT_EQ(to_string(ramp(i, 1, 16)), "ramp(i, 1, 16)");
  EXPECT_EQ(to_string(float_imm(1.5)), "1.5:f32");
  EXPECT_EQ(to_string(float_imm(0.1)), "0.1:f32");
  EXPECT_EQ(to_string(float_imm(-0.0)), "-0:f32");
  EXPECT_EQ(to_string(float_imm(-INFINITY, DataType::bf16())), "-inf:bf16");
  EXPECT_EQ(to_string(float_imm(NAN, DataType::f64())), "nan:f64");
  EXPECT_EQ(to_string(-float_imm(1.5)), "-(1.5:f32)");
  EXPECT_EQ(to_string(int_imm(-3, DataType::i32())), "-3:i32");
  EXPECT_EQ(to_string(logical_not(i < j) && (i == j)), "(!((i < j)) && (i == j))");
}

TEST(ExprText, RoundTripsEveryOperator) {
  const Expr i = var("i"), n = var("n", DataType::i32()), f = var("f", DataType::f32()), g = var("g", DataType::f32());
  const Expr p = var("p", DataType::boolean()), v = var("v", DataType::f32().with_lanes(16));
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax, Op::kEq, Op::kNe, Op::kLt, Op::kLe}) {
    expect_round_trip(binary(op, f, g));
    expect_round_trip(binary(op, n, int_imm(-7, DataType::i32())));
    expect_round_trip(binary(op, v, f));
  }
  for (Op op : {Op::kFloorDiv, Op::kFloorMod, Op::kAnd, Op::kOr, Op::kXor, Op::kShiftLeft, Op::kShiftRight}) {
    expect_round_trip(binary(op, i, var("j")));
    expect_round_trip(binary(op, n, n));
  }
  for (Op op : {Op::kAnd, Op::kOr, Op::kXor, Op::kEq}) expect_round_trip(binary(op, p, i < 3));
  for (Op op : {Op::kNeg, Op::kAbs, Op::kFloor, Op::kCeil, Op::kRound, Op::kTrunc}) expect_round_trip(unary(op, v));
  for (Op op : {Op::kNot, Op::kNeg, Op::kAbs}) expect_round_trip(unary(op, n));
  for (Op op : {Op::kReduceAdd, Op::kReduceMin, Op::kReduceMax, Op::kReduceMul}) expect_round_trip(reduce_lanes(op, v));
  for (Op op : {Op::kReduceAnd, Op::kReduceOr}) expect_round_trip(reduce_lanes(op, v < f));
  for (const ElementaryFunction& function : elementary_functions()) {
    expect_round_trip(call(std::string(function.name), std::vector<Expr>(function.arity, v)));
  }
  expect_round_trip(logical_not(p));
  expect_round_trip(fma(v, f, v));
  expect_round_trip(select(v < f, v, f));
  expect_round_trip(select(p, v, v));
  expect_round_trip(extract(v, 15));
  expect_round_trip(cast(DataType::i32(), v));
  expect_round_trip(bitcast(DataType::i32(), v));
  expect_round_trip(load("A", DataType::f32(), {}));
  expect_round_trip(load("a/b", DataType::f32(), {i, ramp(i * 3, 2, 16)}));
  expect_round_trip(load_if("B", DataType::f32(), {ramp(i, 1, 8)}, ramp(i, 1, 8) < 5) +
                    load("A", DataType::f32(), {i}));
  expect_round_trip(load("A", DataType::f32(), {load("I", DataType::i64(), {i})}));
}

TEST(ExprText, RoundTripsImmediates) {
  for (ScalarType scalar : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kF64}) {
    const DataType type(scalar);
    const double min = scalar == ScalarType::kF64   ? 5e-324
                       : scalar == ScalarType::kF16 ? 0x1p-24
                       : scalar == ScalarType::kF32 ? 0x1p-149
                                                    : 0x1p-133;
    for (double x :
         {0.0, 1.0, 0.1, 1.0 / 3, 1e30, 16777216.0, 65504.0, 1e-7, 123456789.0, min, 3 * min, double(INFINITY)}) {
      expect_round_trip(float_imm(x, type));
      expect_round_trip(float_imm(-x, type));
    }
    expect_round_trip(float_imm(NAN, type));
    expect_round_trip(float_imm(-NAN, type));
  }
  expect_round_trip(float_imm(std::bit_cast<double>(0x7ff8000012345678), DataType::f64()));
  expect_round_trip(float_imm(std::bit_cast<double>(0xfff8000020000000), DataType::f32()));
  for (int64_t x : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) expect_round_trip(int_imm(x));
  expect_round_trip(int_imm(200, DataType(ScalarType::kU8)));
  expect_round_trip(int_imm(1, DataType::boolean()));
  expect_round_trip(float_imm(2, DataType::f32().with_lanes(4)));
  testing::Random random(7);
  for (int k = 0; k < 20000; ++k) {
    const auto bits = static_cast<uint32_t>(random.between(0, UINT32_MAX));
    expect_round_trip(float_imm(std::bit_cast<float>(bits)));
  }
}

TEST(ExprText, RoundTripsRandomExpressions) {
  testing::Random random(11);
  for (int k = 0; k < 3000; ++k) {
    const auto ranges = testing::random_ranges(random);
    expect_round_trip(testing::random_index(random, ranges, 5));
    expect_round_trip(testing::random_condition(random, ranges, 3));
  }
}

TEST(ExprText, TakesPrecedenceOfC) {
  const auto same = [](std::string_view a, std::string_view b) {
    EXPECT_EQ(to_string(parse_expr(a, scope())), to_string(parse_expr(b, scope())));
  };
  same("i * 4 + j % 3 - k", "(((i * 4) + floormod(j, 3)) - k)");
  same("i < 3 && j >= 2 || p", "(((i < 3) && (2 <= j)) || p)");
  same("i << 2 & 7", "((i << 2) & 7)");
  same("-i + -4", "(-(i) + (-4))");
  same("!p && p", "(!(p) && p)");
}

TEST(ExprText, RejectsWithLineAndColumn) {
  EXPECT_EQ(error_of("i +"), "line 1, column 4: expected an expression, found the end");
  EXPECT_EQ(error_of("(i + 4"), "line 1, column 7: expected ')', found the end");
  EXPECT_EQ(error_of("i + f"), "line 1, column 3: operands of '+' are i64 and f32");
  EXPECT_EQ(error_of("i\n + Q[i]"), "line 2, column 4: 'Q' is no tensor or buffer here");
  EXPECT_EQ(error_of("sine(f)"), "line 1, column 1: unknown function 'sine'");
  EXPECT_EQ(error_of("pow(f)"), "line 1, column 1: 'pow' takes 2 operands, found 1");
  EXPECT_EQ(error_of("exp(i)"), "line 1, column 1: 'exp' takes floats");
  EXPECT_EQ(error_of("select(i, i, i)"), "line 1, column 1: expected a condition, found a i64");
  EXPECT_EQ(error_of("cast<f33>(i)"), "line 1, column 6: 'f33' is no scalar type");
  EXPECT_EQ(error_of("bitcast<f32>(i)"), "line 1, column 1: bitcast between types of unequal width");
  EXPECT_EQ(error_of("1.5"), "line 1, column 1: '1.5' is no i64 number (floats need a type: 1.5:f32)");
  EXPECT_EQ(error_of("i j"), "line 1, column 3: expected the end, found 'j'");
  EXPECT_EQ(error_of("((i + 1) if p)"), "line 1, column 1: only a load takes 'if'");
  EXPECT_EQ(error_of("ramp(i, 1, 1)"), "line 1, column 1: 'ramp' with 1 lanes");
  EXPECT_EQ(error_of("v + ramp(f, f, 8)"), "line 1, column 3: vectors of 16 and 8 lanes");
  EXPECT_EQ(error_of("extract(v, 16)"), "line 1, column 1: 'extract' with 16 lanes");
}

}  // namespace
}  // namespace tw
