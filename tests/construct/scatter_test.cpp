// Sums at computed indices: every candidate computes what the te program says, with indices that come twice, that count
// from the end and that no term has; lines that fill no vector and no block.
#include <gtest/gtest.h>

#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

struct Case {
  Shape before = {};
  int64_t terms = 1, lines = 1;
  Shape line = {};
  bool follows = false;  // a stage that reads the sums
  bool twice = false;    // and one that reads that stage twice, which computes something
};

// y[a.., v, b..] = sum over j of x[a.., j, b..] where indices[j] = v.
te::Program scatter(const Case& in) {
  te::Builder b;
  Shape shape = in.before, sums = in.before;
  shape.push_back(in.terms), sums.push_back(in.lines);
  shape.insert(shape.end(), in.line.begin(), in.line.end());
  sums.insert(sums.end(), in.line.begin(), in.line.end());
  const te::Tensor x = b.placeholder("x", DataType::f32(), shape);
  const te::Tensor indices = b.placeholder("indices", DataType::i64(), {in.terms});
  const size_t line = in.before.size();
  const te::Tensor at = b.compute("at", {in.terms}, [&](const auto& i) {
    const Expr n = int_imm(in.lines);
    return min(max(select(indices(i) < int_imm(0), indices(i) + n, indices(i)), int_imm(0)), n - int_imm(1));
  });
  const te::Tensor y = b.reduce("y", sums, {in.terms}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    std::vector<Expr> from = i;
    from[line] = r[0];
    return select(at(r) == i[line], x(from), float_imm(0, DataType::f32()));
  });
  if (!in.follows) return merged(b.finish("scatter", {y}));
  const te::Tensor w = b.placeholder("w", DataType::f32(), sums);
  const te::Tensor z = b.compute("z", sums, [&](const auto& i) {
    const Expr value = w(i) - y(i) * float_imm(.5, DataType::f32());
    return in.twice ? call("tanh", {value}) : value;
  });
  if (!in.twice) return merged(b.finish("scatter", {z}));
  const te::Tensor t = b.compute("t", sums, [&](const auto& i) { return w(i) * z(i) + z(i) * z(i); });
  return merged(b.finish("scatter", {t}));
}

TEST(Scatter, SumsGoToTheirLines) {
  for (const Case& in : {Case{{}, 16, 7, {33}}, Case{{}, 9, 40, {64}}, Case{{}, 5, 3, {4, 35}}, Case{{2}, 8, 5, {32}},
                         Case{{}, 24, 11, {300}}, Case{{}, 1, 2, {48}}, Case{{}, 16, 9, {40}, true},
                         Case{{}, 16, 9, {43}, true, true}}) {
    const te::Program program = scatter(in);
    SCOPED_TRACE(te::to_string(program));
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_80", "cuda:sm_90a"})
      check({program, {}}, target, "scatter", 1e-5);
    for (const char* target : {"cpu:x86-64-v4", "cuda:sm_90a"})
      check({program, {}}, target, "scatter", 1e-5, Values::kSpecial);
  }
}

TEST(Scatter, LinesOfOneElement) {
  const te::Program program = scatter({{}, 20, 50, {}});
  check({program, {}}, "cpu:x86-64-v3", "scatter", 1e-5);
  check({program, {}}, "cuda:sm_90a", "point", 1e-5);
}

TEST(Scatter, StagesOfOneElementThatAreReadTwice) {
  const te::Program program = scatter({{3}, 8, 8, {}, true, true});
  check({program, {}}, "cpu:x86-64-v3", "scatter", 1e-5);
  check({program, {}}, "cpu:x86-64-v4", "scatter", 1e-5);
}

// Which of several writers comes last: a maximum of integers.
TEST(Scatter, MaximaOfIntegers) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::i64(), {50}), at = b.placeholder("at", DataType::i64(), {50});
  const te::Tensor y = b.reduce("y", {20}, {50}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return select(at({r[0]}) == i[0], x({r[0]}), te::identity_of(te::CombinerKind::kMax, DataType::i64()));
  });
  const te::Program program = b.finish("last", {y});
  check({program, {}}, "cpu:x86-64-v3", "scatter", 0);
  check({program, {}}, "cuda:sm_90a", "point", 0);
}

TEST(Scatter, OtherConditionsAreNone) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {6, 8});
  const te::Tensor y = b.reduce("y", {6, 8}, {6}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return select(r[0] <= i[0], x({r[0], i[1]}), float_imm(0, DataType::f32()));
  });
  schedule::Schedule s;
  EXPECT_FALSE(
      construct_scatter({merged(b.finish("running", {y})), {}}, targets::find_target("cpu:x86-64-v3").info).ok());
}

}  // namespace
}  // namespace tw::construct
