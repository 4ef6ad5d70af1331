// Sums of the same columns become one reduction with several outputs; others stay.
#include <gtest/gtest.h>

#include "te/join_outputs.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"

namespace tw::te {
namespace {

struct Sums {
  Builder b;
  Tensor x = b.placeholder("x", DataType::f32(), {4, 3, 5}), y = b.placeholder("y", DataType::f32(), {4, 3, 5});
  Tensor over(const char* name, const Tensor& t) {
    return b.reduce(name, {1, 1, 5}, {4, 3}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return t({r[0], r[1], i[2]});
    });
  }
  Tensor product = b.compute("product", x.shape, [&](const auto& i) { return x(i) * y(i); });
};

Program joined(const Program& before) {
  Program after = join_sums(before);
  const ValueMap inputs = testing::whole_inputs(before);
  const ValueMap want = evaluate(before, inputs), got = evaluate(after, inputs);
  for (const std::string& name : before.outputs) EXPECT_EQ(want.at(name).floats, got.at(name).floats) << name;
  EXPECT_EQ(to_string(parse_program(to_string(after))), to_string(after));
  return after;
}

TEST(JoinSums, OfTheSameColumns) {
  Sums s;
  const Tensor a = s.over("a", s.x), b = s.over("b", s.product);
  const Program p = joined(s.b.finish("p", {a, b}));
  ASSERT_EQ(p.computes.size(), 2U) << to_string(p);
  EXPECT_EQ(p.computes[1].outputs.size(), 2U);
}

TEST(JoinSums, OfColumnsBeforeAxesOfOnePoint) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {4, 3, 5});
  const auto over = [&](const char* name, double factor) {
    return b.reduce(name, {1, 5, 1, 1}, {4, 3}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({r[0], r[1], i[1]}) * float_imm(factor);
    });
  };
  const Tensor one = over("one", 1), two = over("two", 2);
  EXPECT_EQ(joined(b.finish("p", {one, two})).computes.size(), 1U);
}

TEST(JoinSums, NotOfRowsNorOfWhatIsReadAgain) {
  Sums s;
  const Tensor a = s.over("a", s.x), b = s.over("b", s.product);
  const Tensor mean = s.b.compute("mean", a.shape, [&](const auto& i) { return a(i) * float_imm(0.5); });
  EXPECT_EQ(joined(s.b.finish("p", {a, b, mean})).computes.size(), 4U);

  Sums t;
  const auto rows = [&](const char* name, const Tensor& of) {
    return t.b.reduce(name, {4, 3}, {5}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return of({i[0], i[1], r[0]});
    });
  };
  const Tensor c = rows("c", t.x), d = rows("d", t.product);
  EXPECT_EQ(joined(t.b.finish("p", {c, d})).computes.size(), 3U);
}

}  // namespace
}  // namespace tw::te
