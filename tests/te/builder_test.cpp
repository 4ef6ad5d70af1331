// Building, checking, inlining and evaluating te programs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/error.h"
#include "te/rewrite.h"
#include "tests/te/samples.h"

namespace tw::te {
namespace {

const DataType kF32 = DataType::f32();

TEST(Builder, NamesAreUniqueIdentifiers) {
  Builder b;
  EXPECT_EQ(b.placeholder("x", kF32, {2}).name, "x");
  EXPECT_EQ(b.placeholder("x", kF32, {2}).name, "x_1");
  EXPECT_EQ(b.placeholder("/conv1/out:0", kF32, {2}).name, "_conv1_out_0");
  EXPECT_EQ(b.placeholder("12", kF32, {2}).name, "_12");
  EXPECT_EQ(b.placeholder("", kF32, {2}).name, "_");
}

TEST(Builder, ReductionHasNamedAxesAndIdentity) {
  const Program p = samples::matmul_bias_relu(3, 4, 5);
  const Compute& c = *p.find_compute("C");
  EXPECT_EQ(c.axes[1].name, "i1");
  EXPECT_EQ(c.reduce_axes[0].name, "r0");
  EXPECT_EQ(c.reduce_axes[0].extent, 5);
  EXPECT_TRUE(equal(c.combiner.identity[0], float_imm(0)));
  EXPECT_TRUE(p.is_output("Y"));
  EXPECT_FALSE(p.is_output("C"));
  EXPECT_EQ(p.find_compute("A"), nullptr);
  EXPECT_EQ(p.tensor("A").shape, (Shape{3, 5}));
  EXPECT_THROW(p.tensor("Q"), InternalError);
}

TEST(Builder, Identities) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(identity_of(CombinerKind::kMax, kF32)->number, -infinity);
  EXPECT_EQ(identity_of(CombinerKind::kMin, DataType::f16())->number, infinity);
  EXPECT_EQ(identity_of(CombinerKind::kMax, ScalarType::kI8)->value, -128);
  EXPECT_EQ(identity_of(CombinerKind::kMin, ScalarType::kU16)->value, 65535);
  EXPECT_EQ(identity_of(CombinerKind::kMin, DataType::i64())->value, INT64_MAX);
  EXPECT_EQ(identity_of(CombinerKind::kMin, ScalarType::kU64)->value, -1);
  EXPECT_EQ(identity_of(CombinerKind::kProd, DataType::i32())->value, 1);
  EXPECT_EQ(identity_of(CombinerKind::kAnd, DataType::boolean())->value, 1);
  EXPECT_EQ(identity_of(CombinerKind::kAnd, DataType::i32())->value, -1);
  EXPECT_EQ(identity_of(CombinerKind::kOr, ScalarType::kU8)->value, 0);
  EXPECT_THROW(identity_of(CombinerKind::kTuple, kF32), InternalError);
}

TEST(Verify, RefusesBrokenPrograms) {
  const Program good = samples::matmul_bias_relu(3, 4, 5);
  EXPECT_NO_THROW(verify(good));
  const auto broken = [&](const auto& change) {
    Program p = good;
    change(p);
    EXPECT_THROW(verify(p), InternalError) << to_string(p);
  };
  broken([](Program& p) { p.outputs = {"Z"}; });
  broken([](Program& p) { std::swap(p.computes[0], p.computes[1]); });
  broken([](Program& p) { p.inputs[1].name = "A"; });
  broken([](Program& p) { p.computes[0].axes[0].extent = 9; });
  broken([](Program& p) { p.computes[0].axes[0].name = "i1"; });
  broken([](Program& p) { p.computes[0].reduce_axes[0].name = "k"; });
  broken([](Program& p) { p.computes[0].body[0] = load("A", DataType::f32(), {var("i0")}); });
  broken([](Program& p) { p.computes[0].body[0] = load("A", DataType::f64(), {var("i0"), var("r0")}); });
  broken([](Program& p) {
    p.computes[0].body[0] = load("A", DataType::f32(), {int_imm(0, DataType::i32()), var("r0")});
  });
  broken([](Program& p) { p.computes[0].body.push_back(p.computes[0].body[0]); });
  broken([](Program& p) { p.computes[0].combiner.identity.clear(); });
  Program tuple = samples::argmax(3, 4);
  EXPECT_NO_THROW(verify(tuple));
  tuple.computes[0].combiner.result[1] = var("i0");
  EXPECT_THROW(verify(tuple), InternalError);
}

TEST(Inline, ReplacesEveryRead) {
  samples::Random random(4);
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {4, 6});
  const Tensor t = b.compute("T", {6, 4}, [&](const auto& i) {
    return x({i[1], i[0]}) + cast(kF32, i[0] * 10 + i[1]);
  });
  const Tensor y = b.reduce("Y", {4, 4}, {8}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr row = r[0] - 1;
    const Expr guarded = select(row >= 0 && row < 6, t({row, i[1]}), float_imm(0.5));
    return guarded * load_if("T", kF32, {row, i[0]}, row >= 0 && row < 6) + t({i[0], i[1]});
  });
  const Program program = b.finish("p", {y});
  const Program inlined = inline_computes(program, {"T"});
  EXPECT_EQ(inlined.computes.size(), 1u);
  EXPECT_EQ(to_string(inlined).find("T["), std::string::npos);
  verify(inlined);
  const ValueMap inputs = samples::random_inputs(program, random, 1);
  EXPECT_TRUE(samples::same(evaluate(program, inputs).at("Y"), evaluate(inlined, inputs).at("Y")));
}

TEST(Inline, SubstitutesAllAxesAtOnce) {
  // T[i1, i0] must not turn i0 into i1 and back.
  const Program program = samples::transpose_add(2, 3, 5);
  samples::Random random(1);
  const ValueMap inputs = samples::random_inputs(program, random, 1);
  EXPECT_TRUE(
      samples::same(evaluate(inline_computes(program, {"T"}), inputs).at("Y"), evaluate(program, inputs).at("Y")));
}

TEST(Inline, KeepsOutputsAndRefusesReductions) {
  const Program program = samples::conv(2, 5, 3, 1, 1, samples::Guard::kSelect);
  EXPECT_EQ(inline_computes(program, {"Y"}).computes.size(), 2u);
  EXPECT_THROW(inline_computes(program, {"C"}), InternalError);
  EXPECT_THROW(inline_computes(program, {"X"}), InternalError);
}

TEST(Evaluate, KnownNumbers) {
  const Program program = samples::matmul_bias_relu(1, 2, 3);
  const ValueMap out = evaluate(program, {{"A", {kF32, {1, 3}, {1, 2, 3}, {}}},
                                          {"B", {kF32, {3, 2}, {1, -1, 2, -2, 3, -3}, {}}},
                                          {"bias", {kF32, {2}, {0.5, 1}, {}}}});
  EXPECT_EQ(out.at("C").floats, (std::vector<double>{14, -14}));
  EXPECT_EQ(out.at("Y").floats, (std::vector<double>{14.5, 0}));
  const ValueMap best = evaluate(samples::argmax(2, 3), {{"X", {kF32, {2, 3}, {1, 5, 5, -2, -7, -3}, {}}}});
  EXPECT_EQ(best.at("value").floats, (std::vector<double>{5, -2}));
  EXPECT_EQ(best.at("place").ints, (std::vector<int64_t>{1, 0}));
}

TEST(Evaluate, ScalarSemantics) {
  const auto value = [](const Expr& e) {
    Builder b;
    b.placeholder("unused", kF32, {});
    const Tensor y = b.compute("y", {}, [&](const auto&) { return e; });
    const TensorValues out = evaluate(b.finish("p", {y}), {{"unused", {kF32, {}, {0}, {}}}}).at("y");
    return out.type.is_float() ? out.floats[0] : static_cast<double>(out.ints[0]);
  };
  const auto i8 = [](int64_t v) { return int_imm(v, ScalarType::kI8); };
  const auto u8 = [](int64_t v) { return int_imm(v, ScalarType::kU8); };
  const Expr nan = float_imm(std::nan(""));
  EXPECT_EQ(value(binary(Op::kAdd, i8(127), i8(1))), -128);
  EXPECT_EQ(value(binary(Op::kSub, u8(0), u8(1))), 255);
  EXPECT_EQ(value(binary(Op::kDiv, i8(-7), i8(2))), -3);
  EXPECT_EQ(value(binary(Op::kFloorDiv, i8(-7), i8(2))), -4);
  EXPECT_EQ(value(binary(Op::kFloorMod, i8(-7), i8(2))), 1);
  EXPECT_EQ(value(binary(Op::kShiftRight, i8(-8), i8(1))), -4);
  EXPECT_EQ(value(cast(ScalarType::kU8, float_imm(-3.5))), 0);
  EXPECT_EQ(value(cast(ScalarType::kI8, float_imm(300))), 127);
  EXPECT_EQ(value(cast(DataType::i32(), nan)), 0);
  EXPECT_EQ(value(cast(DataType::boolean(), float_imm(0.1))), 1);
  EXPECT_TRUE(std::isnan(value(min(nan, float_imm(1)))));
  EXPECT_TRUE(std::isnan(value(max(float_imm(1), nan))));
  EXPECT_EQ(value(unary(Op::kRound, float_imm(2.5))), 2);
  EXPECT_EQ(value(bitcast(DataType::i32(), float_imm(1))), 0x3f800000);
  EXPECT_EQ(value(bitcast(DataType::f16(), int_imm(0x3c00, ScalarType::kU16))), 1);
  EXPECT_DOUBLE_EQ(value(call("exp", {float_imm(1)})), std::exp(1.0));
  EXPECT_THROW(value(binary(Op::kDiv, i8(1), i8(0))), InternalError);
}

TEST(Evaluate, RefusesReadsOutside) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {3});
  const Tensor y = b.compute("Y", {3}, [&](const auto& i) { return x({i[0] + 1}); });
  const Program program = b.finish("p", {y});
  try {
    evaluate(program, {{"X", {kF32, {3}, {1, 2, 3}, {}}}});
    FAIL() << "read outside";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("'Y' reads 'X' of shape [3] at index 3"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(evaluate(program, {}), InternalError);
  EXPECT_THROW(evaluate(program, {{"X", {kF32, {4}, {1, 2, 3, 4}, {}}}}), InternalError);
}

}  // namespace
}  // namespace tw::te
