// simplify: loops of extent 0 and 1, known conditions, ranges inside guards.
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

TEST(Simplify, LoopsOfOnePointAreTheirBody) {
  expect_pass("simplify", "for i in 1 { for j in 3 { Y[i, (j + i)] = 0:f32 } }", "for j in 3 { Y[0, j] = 0:f32 }");
}

TEST(Simplify, EmptyLoopsGo) {
  expect_pass("simplify", "for i in 1 threads { S[i] = 0:f32 }", "for i in 1 threads { S[0] = 0:f32 }");
  expect_pass("simplify", "for i in 0 { Y[i, 0] = 0:f32 } S[t] = 0:f32", "S[t] = 0:f32");
  expect_pass("simplify", "for i in 3 { alloc a: f32[2] stack { for j in 0 { a[j] = 0:f32 } } }", "");
}

// The runtime runs at least one tile of every kernel.
TEST(Simplify, AKernelWithoutTilesIsOneThatDoesNothing) {
  const loop::Program program =
      loop::parse_program("program p kernel k(Y: f32[0, 3] param written) tiles t in 0 { Y[t, 0] = 0:f32 }");
  const loop::Kernel kernel = find_pass("simplify").run(program, {}).kernels.at(0);
  EXPECT_EQ(kernel.tiles, 1);
  EXPECT_EQ(kernel.tile_var, "");
  EXPECT_TRUE(kernel.body.empty());
  EXPECT_EQ(kernel.params.size(), 1U);
}

TEST(Simplify, OneTurnOfAPipelinedLoopStays) {
  const std::string loop =
      "for i in 1 pipelined(2) { alloc a: f32[4] stack { for j in 4 threads { a[j] = 1:f32 } for k in 4 threads { "
      "Y[0, k] = a[k] } } }";
  expect_pass("simplify", loop, loop);
}

TEST(Simplify, ConditionsThatRangesDecideGo) {
  expect_pass("simplify", "for i in 4 { if (i < 4) { Y[i, 0] = 0:f32 } else { Y[i, 1] = 0:f32 } }",
              "for i in 4 { Y[i, 0] = 0:f32 }");
  expect_pass("simplify", "for i in 4 { if (i < 0) { Y[i, 0] = 0:f32 } else { Y[i, 1] = 0:f32 } }",
              "for i in 4 { Y[i, 1] = 0:f32 }");
  expect_pass("simplify", "if (t < 6) { S[t] = 0:f32 }", "S[t] = 0:f32");
  expect_pass("simplify", "for i in 4 { if (i < 3) { Y[i, 0] = 0:f32 } }",
              "for i in 4 { if (i < 3) { Y[i, 0] = 0:f32 } }");
}

TEST(Simplify, AGuardNarrowsTheRangeInside) {
  expect_pass("simplify",
              "for i in 8 { if (i < 3) { if (i < 5) { Y[i, 0] = 0:f32 } } else { if (i < 3) { Y[i, 1] = 0:f32 } else { "
              "Y[i, 2] = 0:f32 } } }",
              "for i in 8 { if (i < 3) { Y[i, 0] = 0:f32 } else { Y[i, 2] = 0:f32 } }");
  // After the guard the variable has its whole range again.
  expect_pass("simplify", "for i in 8 { if (i < 3) { Y[i, 0] = 0:f32 } if (i < 4) { Y[i, 1] = 0:f32 } }",
              "for i in 8 { if (i < 3) { Y[i, 0] = 0:f32 } if (i < 4) { Y[i, 1] = 0:f32 } }");
}

TEST(Simplify, LetsOfConstantsGoAndOthersHaveTheirRange) {
  expect_pass("simplify", "let a = 2 { Y[a, 0] = 0:f32 }", "Y[2, 0] = 0:f32");
  expect_pass("simplify", "let a = floormod(t, 3) { if (a < 3) { S[a] = 0:f32 } }",
              "let a = floormod(t, 3) { S[a] = 0:f32 }");
}

TEST(Simplify, DivisionByTilesOfALoopGoes) {
  expect_pass("simplify",
              "for i in 4 { for j in 4 { Y[floordiv(((i * 4) + j), 4), floormod(((i * 4) + j), 4)] = 0:f32 } }",
              "for i in 4 { for j in 4 { Y[i, j] = 0:f32 } }");
}

TEST(Simplify, PredicatesThatNeverHoldTakeTheirStoreAway) {
  expect_pass("simplify", "for i in 4 { Y[i, 0] = 0:f32 if (i < 0) Y[i, 1] = 0:f32 if (i < 4) }",
              "for i in 4 { Y[i, 1] = 0:f32 }");
}

}  // namespace
}  // namespace tw::lower::test
