// The primitive `branch`: a select is tested around both ways, each with the stages that it alone reads.
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "support/error.h"
#include "tests/harness/loop_check.h"

namespace tw::schedule {
namespace {

// y[i, j] = low[i] ? twice[i, j] : thrice[i, j], low[i] = x[i, 0] < 0.
te::Program chosen(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  const te::Tensor low = b.compute("low", {rows}, [&](const auto& i) { return x({i[0], Expr(0)}) < float_imm(0); });
  const te::Tensor twice = b.compute("twice", x.shape, [&](const auto& i) { return x(i) * float_imm(2); });
  const te::Tensor thrice = b.compute("thrice", x.shape, [&](const auto& i) { return x(i) * float_imm(3); });
  const te::Tensor y =
      b.compute("y", x.shape, [&](const auto& i) { return select(low({i[0]}), twice(i), thrice(i)) + float_imm(1); });
  return b.finish("chosen", {y});
}

Schedule attached(const std::string& loop) {
  Schedule s;
  for (const char* stage : {"low", "twice", "thrice"}) s.compute_at(stage, "y", loop, loop::Scope::kStack);
  return s;
}

std::string refusal(const Schedule& schedule) { return testing::refusal(chosen(6, 5), schedule); }

std::string buffers_stored(const std::vector<loop::Stmt>& stmts) {
  std::string names;
  loop::visit(stmts, [&](const loop::Stmt& s) {
    if (s->kind == loop::StmtKind::kStore) names += s->buffer + " ";
  });
  return names;
}

TEST(Branch, TheTestStandsAroundBothWays) {
  const te::Program p = chosen(6, 5);
  for (const bool parallel : {false, true}) {
    Schedule s = attached("i0");
    s.branch("y", "i0");
    if (parallel) s.parallel("y", {"i0"});
    const loop::Program loops = apply(p, s);
    loop::verify(loops);
    const te::ValueMap inputs = testing::whole_inputs(p);
    EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(loops, inputs), 0), "");
    int branches = 0;
    loop::visit(loops.kernels[0].body, [&](const loop::Stmt& stmt) {
      if (stmt->kind != loop::StmtKind::kIf) return;
      ++branches;
      EXPECT_EQ(buffers_stored(stmt->body), "y ") << "both are attached outside of the test";
      EXPECT_EQ(buffers_stored(stmt->otherwise), "y ");
    });
    EXPECT_EQ(branches, 1);
  }
}

// What is attached inside the loops that branch belongs to one way.
TEST(Branch, StagesOfTheOtherWayAreNotComputed) {
  const te::Program p = chosen(6, 5);
  Schedule s;
  s.compute_at("low", "y", "i0", loop::Scope::kStack);
  s.compute_at("twice", "y", "i1", loop::Scope::kStack).compute_at("thrice", "y", "i1", loop::Scope::kStack);
  s.branch("y", "i0");
  EXPECT_EQ(parse_schedule(to_string(s)), s);
  const loop::Program loops = apply(p, s);
  loop::verify(loops);
  const te::ValueMap inputs = testing::whole_inputs(p);
  EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(loops, inputs), 0), "");
  const std::string text = loop::to_string(loops);
  const size_t other = text.find("else");
  EXPECT_NE(text.find("twice["), std::string::npos);
  EXPECT_LT(text.rfind("twice["), other) << text;
  EXPECT_GT(text.find("thrice["), other) << text;
}

TEST(Branch, Refuses) {
  EXPECT_EQ(refusal(attached("i0").branch("y", "i2")),
            "schedule primitive 'branch y i2': stage y has no loop i2; its loops are i0 i1");
  EXPECT_EQ(refusal(attached("i0").branch("y", "i0").branch("y", "i1")),
            "schedule primitive 'branch y i1': branch: stage y reduces, or branches already");
  EXPECT_EQ(refusal(attached("i0").vectorize("y", "i1").branch("y", "i1")),
            "schedule primitive 'branch y i1': branch: loop i1 of y is vectorised or unrolled");
  // The condition moves with i0, which stands inside.
  EXPECT_EQ(
      refusal(
          Schedule().reorder("y", {"i1", "i0"}).compute_at("low", "y", "i1", loop::Scope::kStack).branch("y", "i1")),
      "branch y i1: no select is decided there");
  // A root's condition may be read where its guards do not hold.
  EXPECT_EQ(refusal(Schedule().branch("y", "i0")), "branch y i0: no select is decided there");
}

}  // namespace
}  // namespace tw::schedule
