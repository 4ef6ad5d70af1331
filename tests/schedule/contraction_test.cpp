// Which computes are sums of products, and the role of each axis.
#include "schedule/match/contraction.h"

#include <gtest/gtest.h>

#include "expr/tf32.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "te/reads.h"
#include "tests/harness/te_programs.h"

namespace tw::schedule {
namespace {

std::vector<std::string> names(const std::vector<te::Axis>& axes) {
  std::vector<std::string> out;
  for (const te::Axis& a : axes) out.push_back(a.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(MatchContraction, MatmulHasRowsAndAColumn) {
  const te::Program p = testing::matmul_relu(3, 5, 7);
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_EQ(match->a->name, "x");
  EXPECT_EQ(match->b->name, "w");
  EXPECT_EQ(match->column.name, "i1");
  EXPECT_EQ(names(match->rows), Names{"i0"});
  EXPECT_TRUE(match->batch.empty());
  EXPECT_FALSE(match->a_uses_column);
}

TEST(MatchContraction, OperandsRoundedToTf32) {
  const auto match = [](bool left, bool right) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 4}), w = b.placeholder("w", DataType::f32(), {4, 5});
    const te::Tensor y = b.reduce("y", {3, 5}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      const Expr a = select(i[0] < Expr(2), x({i[0], r[0]}), float_imm(0)), c = w({r[0], i[1]});
      return (left ? to_tf32(a) : a) * (right ? to_tf32(c) : c);
    });
    const te::Program p = b.finish("rounded", {y});
    const Result<Contraction> found = match_contraction(p.computes[0]);
    if (!found.ok()) return found.reason();
    return fmt::format("{} {}{}{}", found->a->name, found->b->name, found->tf32 ? " tf32" : "",
                       found->guarded ? " guarded" : "");
  };
  EXPECT_EQ(match(true, true), "x w tf32 guarded");
  EXPECT_EQ(match(false, false), "x w guarded");
  EXPECT_EQ(match(true, false), "y rounds one operand to tf32");
  EXPECT_EQ(match(false, true), "y rounds one operand to tf32");
}

TEST(MatchContraction, BatchAxesOccurInBothOperands) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 3, 4});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {2, 4, 5});
  const te::Tensor y = b.reduce("y", {2, 3, 5}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return w({i[0], r[0], i[2]}) * x({i[0], i[1], r[0]});
  });
  const te::Program p = b.finish("batched", {y});
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_EQ(match->b->name, "w") << "the operand along the column, whichever comes first";
  EXPECT_EQ(names(match->batch), Names{"i0"});
  EXPECT_EQ(names(match->rows), Names{"i1"});
}

TEST(MatchContraction, DepthwiseReusesTheWeights) {
  const te::Program p = testing::depthwise(5, 7);
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_EQ(match->b->name, "w");
  EXPECT_EQ(names(match->rows), (Names{"i0", "i1"}));
  EXPECT_TRUE(match->a_uses_column);
}

// y[i, p, c] = sum over t < p + 1 of x[i + t] w[c, p, t]: the second of two phases has one filter position more.
te::Program phases(int64_t rows, int64_t columns) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows + 1});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {columns, 2, 2});
  const te::Tensor y =
      b.reduce("y", {rows, 2, columns}, {2}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return select(r[0] < i[1] + Expr(1), x({i[0] + r[0]}) * w({i[2], i[1], r[0]}), float_imm(0));
      });
  return b.finish("phases", {y});
}

TEST(MatchContraction, AConditionOfBatchAndReductionAxes) {
  const te::Program p = phases(5, 7);
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_TRUE(match->condition);
  EXPECT_EQ(names(match->rows), Names{"i0"});
  EXPECT_EQ(names(match->batch), Names{"i1"});
  EXPECT_EQ(count_products(*match), 5 * 7 * 3) << "of 5 * 7 * 4 points";
  const te::Program all = testing::matmul_relu(3, 5, 7);
  EXPECT_EQ(count_products(*match_contraction(all.computes[0])), 3 * 5 * 7);
}

// y[i, c] = sum over t with length[b] > t of x[b, i, t] w[b, c, t]: how many is known at run time only.
TEST(MatchContraction, ProductsUnderAConditionOfDataCountAsSummed) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 5, 4});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {2, 7, 4});
  const te::Tensor length = b.placeholder("length", DataType::i64(), {2});
  const te::Tensor y = b.reduce("y", {2, 5, 7}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr product = x({i[0], i[1], r[0]}) * w({i[0], i[2], r[0]});
    return select(r[0] < length({i[0]}) && r[0] < Expr(3), product, float_imm(0));
  });
  const te::Program p = b.finish("masked", {y});
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_EQ(count_products(*match), 2 * 5 * 7 * 3) << "the fourth is never summed";
}

// Of each sum as many terms as the number of its row (axis 0) or of its column says.
te::Program triangle(size_t deciding) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {5, 4});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {4, 7});
  const te::Tensor y = b.reduce("y", {5, 7}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return select(r[0] < i[deciding], x({i[0], r[0]}) * w({r[0], i[1]}), float_imm(0));
  });
  return b.finish("triangle", {y});
}

TEST(MatchContraction, AxesThatDecideAreOfTheBatch) {
  const te::Program p = triangle(0);
  const Result<Contraction> match = match_contraction(p.computes[0]);
  ASSERT_TRUE(match.ok()) << match.reason();
  EXPECT_TRUE(match->rows.empty());
  ASSERT_EQ(match->batch.size(), 1U);
  EXPECT_EQ(match->batch[0].extent, 5);
}

TEST(MatchContraction, AConditionOfColumnsIsDeclined) {
  const te::Program p = triangle(1);
  EXPECT_EQ(match_contraction(p.computes[0]).reason(), "which products y sums depends on its columns");
}

// The condition is tested once for all that it decides, not at every product.
TEST(MatchContraction, ConditionsLeaveTheLoopsThatTheyDoNotDependOn) {
  const te::Program p = phases(5, 7);
  Schedule s;
  s.reorder("y", {"i1", "r0", "i0", "i2"});
  const std::string text = loop::to_string(apply(p, s));
  const size_t test = text.find("if (y.r0 < (y.i1 + 1))");
  ASSERT_NE(test, std::string::npos) << text;
  EXPECT_LT(test, text.find("for y.i0 in")) << text;
}

// Products with padding are zero. Rows that have a serial loop are tested once for all products that they decide,
// unrolled ones are not.
TEST(MatchContraction, RowsInThePaddingAreSkipped) {
  const te::Program p = testing::conv_2d({5, 8, 4, 3, 1});
  EXPECT_EQ(te::nonzero_conditions(*p.find_compute("conv"), [&](const auto& t) { return p.find_compute(t); }).size(),
            4u);
  EXPECT_TRUE(te::nonzero_conditions(*p.find_compute("conv"), [](const auto&) { return nullptr; }).empty());
  Schedule s;
  s.reorder("conv", {"i0", "r1", "r2", "r0", "i1", "i2"});
  const std::string plain = loop::to_string(apply(p, s));
  EXPECT_EQ(plain.find("if ("), std::string::npos) << "a sum that is no tile of products\n" << plain;
  s.unroll("conv", "i1");
  s.tensorize("conv", "r1", "fma_tile", {});
  const std::string text = loop::to_string(apply(p, s));
  const size_t test = text.find("if ((conv.i0 + conv.r1) < 6)");
  ASSERT_NE(test, std::string::npos) << text;
  EXPECT_LT(test, text.find("for conv.r2 in")) << text;
  EXPECT_EQ(text.find("(conv.i1 + conv.r2) <"), std::string::npos) << text;
}

// Too few products inside of a test.
TEST(MatchContraction, FewProductsAreNotTested) {
  const te::Program p = testing::conv_2d({5, 2, 4, 3, 1});
  Schedule s;
  s.reorder("conv", {"i0", "r0", "r2", "r1", "i1", "i2"});
  s.tensorize("conv", "r0", "fma_tile", {});
  const std::string text = loop::to_string(apply(p, s));
  EXPECT_EQ(text.find("if ("), std::string::npos) << text;
}

TEST(MatchContraction, DeclinesWithAReason) {
  const te::Program softmax = testing::softmax(3, 5);
  EXPECT_EQ(match_contraction(softmax.computes[0]).reason(), "max is no sum");
  EXPECT_EQ(match_contraction(softmax.computes[1]).reason(), "exp is no sum");
  EXPECT_EQ(match_contraction(softmax.computes[2]).reason(), "sum does not sum products");
  const te::Program squares = testing::sums_and_transpose(3, 5);
  EXPECT_EQ(match_contraction(squares.computes[1]).reason(), "sums does not sum products");
}

TEST(Reads, AxesAreFoundInTheirDimensions) {
  const te::Program p = testing::conv_2d({5, 3, 7, 3, 1});
  const Contraction match = *match_contraction(*p.find_compute("conv"));
  EXPECT_EQ(te::dim_of_axis(match.b, "i2"), 0);
  EXPECT_EQ(te::dim_of_axis(match.b, "r2"), 3);
  EXPECT_EQ(te::dim_of_axis(match.b, "i0"), -1);
  EXPECT_EQ(te::dim_of_axis(match.a, "i0"), -1) << "part of a sum";
  EXPECT_TRUE(te::uses_axis(match.a, "i0"));
  EXPECT_FALSE(te::uses_axis(match.b, "i0"));
}

}  // namespace
}  // namespace tw::schedule
