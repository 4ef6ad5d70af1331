// Sums of products as products of two matrices: the same numbers, whatever the indices.
#include <gtest/gtest.h>

#include "expr/tf32.h"
#include "schedule/schedule.h"
#include "support/error.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"
#include "tests/harness/te_programs.h"

namespace tw::schedule {
namespace {

using testing::refused_for;

void expect_same(const te::Program& p, const Schedule& s) {
  const loop::Program loops = apply(p, s);
  SCOPED_TRACE(loop::to_string(loops));
  const te::ValueMap inputs = testing::whole_inputs(p);
  EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(loops, inputs), 0), "");
}

TEST(Matrices, OfAProductOfMatrices) {
  expect_same(testing::matmul_relu(5, 7, 9), Schedule().matrices("y", {"i0", "i1", "r0"}, {1, 1, 1}));
  expect_same(testing::matmul_relu(5, 7, 9), Schedule().matrices("y", {"i1", "i0", "r0"}, {4, 4, 4}));
}

// Beyond the columns of the product, which are no results, and the steps, if it has zeros there.
TEST(Matrices, ReadsColumnsWhereTheirTensorGoesOn) {
  const auto rhs_of = [](int64_t columns, int64_t steps, std::vector<int64_t> multiples) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {5, 9});
    const te::Tensor w = b.placeholder("w", DataType::f32(), {columns, steps});
    const te::Tensor y = b.reduce("y", {5, 7}, {9}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]}) * w({i[1], r[0]});
    });
    const te::Program p = b.finish("longer", {y});
    const Schedule s = Schedule().matrices("y", {"i0", "i1", "r0"}, std::move(multiples));
    expect_same(p, s);
    const std::string text = loop::to_string(apply(p, s));
    const size_t store = text.find("= ", text.find("y.rhs["));
    return text.substr(store, text.find('\n', store) - store);
  };
  const std::string read = "w[y.rhs.i0, y.rhs.i1]";
  const auto guarded = [&](const std::string& guard) { return "= select(" + guard + ", " + read + ", 0:f32)"; };
  EXPECT_EQ(rhs_of(7, 9, {4, 4, 4}), guarded("((y.rhs.i0 < 7) && (y.rhs.i1 < 9))"));
  EXPECT_EQ(rhs_of(8, 12, {4, 4, 4}), guarded("(y.rhs.i1 < 9)"))
      << "what else it has meets zeros, but may be no number";
  EXPECT_EQ(rhs_of(8, 10, {4, 4, 4, 10}), guarded("(y.rhs.i1 < 10)"));
  EXPECT_EQ(rhs_of(8, 10, {4, 4, 4, 12}), guarded("(y.rhs.i1 < 10)")) << "no more than there is";
  EXPECT_EQ(rhs_of(8, 12, {4, 4, 4, 12}), "= " + read);
}

TEST(Matrices, OfAConvolutionWithItsPadding) {
  Schedule s;
  s.inline_stage("pad").matrices("conv", {"i0$i1", "i2", "r1$r2$r0"}, {8, 8, 16});
  expect_same(testing::conv_2d({5, 3, 7, 3, 1}), s);
  expect_same(testing::conv_2d({7, 4, 6, 3, 2}), s);
}

TEST(Matrices, OfWindowsWhoseRowsOverlap) {
  const auto shared = [](std::vector<int64_t> multiples) {
    Schedule s;
    return s.inline_stage("pad").matrices("conv", {"i0$i1", "i2", "r1$r0"}, std::move(multiples), "r2");
  };
  const te::Program p = testing::conv_2d({5, 3, 7, 3, 1});
  expect_same(p, shared({1, 1, 1}));
  expect_same(p, shared({8, 8, 16}));
  // A row of 5 pixels reads 7; two lines more end the last one.
  const std::string text = loop::to_string(apply(p, shared({1, 1, 1})));
  EXPECT_NE(text.find("conv.lhs: f32[37, 9]"), std::string::npos) << text;
  EXPECT_NE(text.find("conv.rhs: f32[3, 7, 9]"), std::string::npos) << text;
  EXPECT_EQ(refused_for(testing::conv_2d({7, 4, 6, 3, 2}), shared({1, 1, 1})),
            "the left operand does not move by r2 as by i1");
  EXPECT_EQ(refused_for(p, Schedule().inline_stage("pad").matrices("conv", {"i0$i1", "i2", "r0"}, {1, 1, 1}, "r2$r1")),
            "the filter positions of conv are of one axis");
}

// Rows go on as in a product before, whose last axis of rows does.
TEST(Matrices, RowsMayGoOnBehindEachLine) {
  const te::Program p = testing::conv_2d({5, 3, 7, 1, 1});
  const Schedule s = Schedule().inline_stage("pad").matrices("conv", {"i0$i1", "i2", "r0$r1$r2"}, {8, 8, 4, 3, 2});
  expect_same(p, s);
  const std::string text = loop::to_string(apply(p, s));
  EXPECT_NE(text.find("conv.lhs: f32[40, 4]"), std::string::npos) << "5 x 7 of which 5 x 5 are rows\n" << text;
  EXPECT_NE(text.find("floormod(conv.lhs.i0, 7) < 5"), std::string::npos) << text;
}

TEST(Matrices, OfGroupsOneBatch) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {2, 3, 5, 4});
  const te::Tensor w = b.placeholder("w", DataType::f16(), {3, 6, 4});
  const te::Tensor y = b.reduce("y", {2, 3, 5, 6}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), x({i[0], i[1], i[2], r[0]})) * cast(DataType::f32(), w({i[1], i[3], r[0]}));
  });
  const te::Program p = b.finish("batched", {y});
  const Schedule s = Schedule().matrices("y", {"i0$i2", "i3", "r0", "i1"}, {4, 4, 8});
  expect_same(p, s);
  const std::string text = loop::to_string(apply(p, s));
  EXPECT_NE(text.find("y.lhs: f16[3, 12, 8] param written"), std::string::npos) << text;
}

// What is rounded to tf32 is stored as it is: the product rounds it.
TEST(Matrices, OfOperandsThatAreRounded) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {5, 9});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {9, 7});
  const te::Tensor y = b.reduce("y", {5, 7}, {9}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr inside = select(i[0] < Expr(4), x({i[0], r[0]}), float_imm(0));
    return to_tf32(inside) * to_tf32(w({r[0], i[1]}));
  });
  const te::Program p = b.finish("rounded", {y});
  const Schedule s = Schedule().matrices("y", {"i0", "i1", "r0"}, {4, 4, 8});
  expect_same(p, s);
  const std::string text = loop::to_string(apply(p, s));
  const size_t last = text.find("y.acc[");
  EXPECT_EQ(text.substr(0, last).find("bitcast"), std::string::npos) << text;
  EXPECT_NE(text.find("bitcast", last), std::string::npos) << text;
}

TEST(Matrices, RefusesWhatIsNone) {
  const te::Program p = testing::matmul_relu(2, 3, 4);
  const auto matrices = [](std::vector<std::string> roles) {
    return Schedule().matrices("y", std::move(roles), {1, 1, 1});
  };
  EXPECT_EQ(refused_for(p, matrices({"i0", "i0", "r0"})), "no axis i0 is left");
  EXPECT_EQ(refused_for(p, matrices({"i0", "i1", "i2"})), "no axis i2 is left");
  EXPECT_EQ(refused_for(p, matrices({"i0$i1", "", "r0"})), "no axis  is left");
  EXPECT_EQ(refused_for(testing::depthwise(5, 3), Schedule().matrices("conv", {"i0$i1", "i2", "r0$r1"}, {1, 1, 1})),
            "an operand of conv uses both rows and columns");
  EXPECT_EQ(refused_for(testing::softmax(2, 3), Schedule().matrices("sum", {"i0", "i0", "r0"}, {1, 1, 1})),
            "stage sum is no sum of float products");
  EXPECT_EQ(refused_for(testing::conv_2d({3, 2, 2, 1, 1}), Schedule().matrices("conv", {"i0", "i1", "r0"}, {1, 1, 1})),
            "some axes of conv have no role");
}

}  // namespace
}  // namespace tw::schedule
