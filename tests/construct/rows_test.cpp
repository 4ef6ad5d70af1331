// The memory-bound families: every candidate computes what the te program says, and candidates can be told apart.
#include <gtest/gtest.h>

#include <cmath>

#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

Candidates candidates_of(const te::Program& program, const std::string& target) {
  const targets::Target t = targets::find_target(target);
  return construct(t.families, {program, {}}, t.info, nullptr);
}

void expect_ranked(const Candidates& candidates, size_t min) {
  EXPECT_GE(candidates.size(), min);
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_TRUE(std::isfinite(candidates[i].predicted_ns) && candidates[i].predicted_ns > 0)
        << candidates[i].predicted_ns;
    EXPECT_FALSE(candidates[i].trace.empty());
    if (i > 0) {
      EXPECT_LE(candidates[i - 1].predicted_ns, candidates[i].predicted_ns);
    }
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(candidates[i].schedule == candidates[j].schedule);
  }
}

// Means over planes of an NCHW tensor; axes merged as the driver does it.
te::Program plane_mean(int64_t rows, int64_t height, int64_t width) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, height, width});
  const te::Tensor sum =
      b.reduce("sum", {rows}, {height, width}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return x({i[0], r[0], r[1]});
      });
  const te::Tensor mean = b.compute(
      "mean", {rows}, [&](const auto& i) { return sum(i) * float_imm(1.0 / static_cast<double>(height * width)); });
  const te::Program p = b.finish("mean", {mean});
  return te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
}

TEST(Rows, PlanesAreOneReductionAxis) {
  const te::Program p = plane_mean(12, 7, 9);
  EXPECT_EQ(p.inputs[0].shape, (Shape{12, 63}));
  ASSERT_EQ(p.computes[0].reduce_axes.size(), 1u) << te::to_string(p);
  EXPECT_EQ(p.computes[0].reduce_axes[0].extent, 63);
}

// Read in two ways: the planes' axes have to stay apart.
TEST(Rows, PlanesThatAreAlsoReadByColumnStayTwoAxes) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {4, 5, 6});
  const te::Tensor scale = b.placeholder("scale", DataType::f32(), {6});
  const te::Tensor sum = b.reduce("sum", {4}, {5, 6}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return max(x({i[0], r[0], r[1]}), scale({r[1]}));
  });
  const te::Program p = b.finish("scaled", {sum});
  const te::Program merged = te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
  EXPECT_EQ(merged.computes[0].reduce_axes.size(), 2u) << te::to_string(merged);
  check({merged, {}}, "cpu:x86-64-v3", "rows", 1e-5);
}

TEST(Rows, MeansOverPlanesAtOddExtents) {
  const int64_t shapes[][3] = {{12, 7, 7}, {5, 3, 5}, {16, 2, 17}, {2, 1, 33}, {6, 9, 9}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("{} planes of {} x {}", s[0], s[1], s[2]));
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
      const te::Program p = plane_mean(s[0], s[1], s[2]);
      check({p, {}}, target, "rows", 1e-5);
      expect_ranked(candidates_of(p, target), 1);
    }
  }
}

TEST(Rows, SoftmaxHasSeveralRowsAndChains) {
  const int64_t shapes[][2] = {{8, 64}, {6, 37}, {7, 100}, {3, 9}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("{} rows of {}", s[0], s[1]));
    check({testing::softmax(s[0], s[1]), {}}, "cpu:x86-64-v3", "rows", 1e-5);
  }
  expect_ranked(candidates_of(testing::softmax(64, 128), "cpu:x86-64-v3"), 4);
}

// One row alone (a pooled token) is a row as others are: its threads share it.
TEST(Rows, OnlyOneRow) {
  for (const int64_t length : {64, 77, 768}) {
    const te::Program p = testing::softmax(1, length);
    const te::Program merged = te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
    check({merged, {}}, "cpu:x86-64-v4", "rows", 1e-5);
    check({merged, {}}, "cuda:sm_90a", "rows", 1e-5);
  }
}

// Registers hold a row in many short pieces where 8 bytes of something else are read beside it.
TEST(Rows, HeldInManyPieces) {
  const te::Program p = te::parse_program(R"(te pieces
input x: f64[2, 32000]
c: f32[2, 32000] (i0, i1) = cast<f32>(x[i0, i1])
m: f32[2] = max(r0 in 32000) over (i0) of c[i0, r0]
y: f32[2, 32000] (i0, i1) = (c[i0, i1] - m[i0])
output y
)");
  check({p, {}}, "cuda:sm_90a", "rows", 1e-5);
}

// As rows of a vocabulary that are stored with zeros behind them: the row is one kernel all the same.
TEST(Rows, TheOutputsMayBeLonger) {
  for (const int64_t length : {203, 4999, 256}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {37, length});
    const auto wide = [](const Expr& e) { return cast(DataType::f32(), e); };
    const te::Tensor m = b.reduce("m", {37}, {length}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
      return wide(x({i[0], r[0]}));
    });
    const te::Tensor e = b.compute("e", x.shape, [&](const auto& i) { return call("exp", {wide(x(i)) - m({i[0]})}); });
    const te::Tensor sum = b.reduce("sum", {37}, {length}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return e({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", {37, length + 5}, [&](const auto& i) {
      const Expr inside = cast(DataType::f16(), e({i[0], i[1]}) / sum({i[0]}));
      return select(i[1] < Expr(length), inside, imm(DataType::f16(), 0));
    });
    SCOPED_TRACE(length);
    check({b.finish("longer", {y}), {}}, "cuda:sm_90a", "rows", 2e-3);
  }
}

// Windows over planes: the contiguous axis is read in steps of the stride; padding on all sides.
te::Program plane_pool(int64_t side, int64_t kernel, int64_t pad) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {3, side, side});
  const te::Tensor padded = b.compute("pad", {3, side + 2 * pad, side + 2 * pad}, [&](const auto& i) {
    const auto inside = [&](const Expr& at) { return at >= Expr(pad) && at < Expr(side + pad); };
    return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(pad), i[2] - Expr(pad)}),
                  te::identity_of(te::CombinerKind::kMax, x.type));
  });
  const int64_t out = (side + 2 * pad - kernel) / 2 + 1;
  const te::Tensor y =
      b.reduce("y", {3, out, out}, {kernel, kernel}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
        return padded({i[0], i[1] * Expr(2) + r[0], i[2] * Expr(2) + r[1]});
      });
  return b.finish("pool", {y});
}

TEST(Columns, WindowsOverPlanesOfOddSides) {
  const int64_t shapes[][3] = {{14, 2, 0}, {14, 3, 1}, {15, 3, 1}, {7, 3, 0}, {33, 3, 1}, {40, 5, 2}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("side {} kernel {} pad {}", s[0], s[1], s[2]));
    check({plane_pool(s[0], s[1], s[2]), {}}, "cpu:x86-64-v3", "columns");
    expect_ranked(candidates_of(plane_pool(s[0], s[1], s[2]), "cpu:x86-64-v3"), s[1] < 5 ? 2 : 1);
  }
}

}  // namespace
}  // namespace tw::construct
