// split-guards: the main part of a loop has no guard, the tail a constant extent.
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

TEST(SplitGuards, TheTailGetsAnExtentOfItsOwn) {
  expect_pass("split-guards", "for i in 4 { for j in 4 { if (((i * 4) + j) < 14) { Y[0, ((i * 4) + j)] = 0:f32 } } }",
              "for i in 3 { for j in 4 { Y[0, ((i * 4) + j)] = 0:f32 } } for jt in 2 { Y[0, (jt + 12)] = 0:f32 }");
}

TEST(SplitGuards, ALoopOfOnlyATail) {
  expect_pass("split-guards", "for j in 8 { if (j < 5) { Y[0, j] = 0:f32 } }", "for j in 5 { Y[0, j] = 0:f32 }");
}

TEST(SplitGuards, KindsOfLoopsStay) {
  expect_pass(
      "split-guards",
      "for i in 2 unrolled { for j in 4 vectorized { if (((i * 4) + j) < 6) { Y[0, ((i * 4) + j)] = 0:f32 } } }",
      "for j in 4 vectorized { Y[0, j] = 0:f32 } for jt in 2 vectorized { Y[0, (jt + 4)] = 0:f32 }");
}

// The columns end inside the first vector: the second one is not there, and the first one is shorter.
TEST(SplitGuards, IterationsInWhichAGuardNeverHoldsGo) {
  expect_pass(
      "split-guards",
      "for i in 3 unrolled { for j in 4 vectorized { if (((i * 4) + j) < 3) { Y[0, ((i * 4) + j)] = 0:f32 } } }",
      "for j in 3 vectorized { Y[0, j] = 0:f32 }");
  expect_pass("split-guards", "for i in 2 { for j in 4 { if (5 < ((i * 4) + j)) { Y[0, ((i * 4) + j)] = 0:f32 } } }",
              "for jtt in 2 { Y[0, (jtt + 6)] = 0:f32 }");
}

TEST(SplitGuards, TwoGuardsOfOneLoop) {
  expect_pass("split-guards", "for i in 8 { if (i < 3) { Y[i, 0] = 0:f32 } if (i < 5) { Y[i, 1] = 0:f32 } }",
              "for i in 3 { Y[i, 0] = 0:f32 Y[i, 1] = 0:f32 } for it in 2 { Y[(it + 3), 1] = 0:f32 }");
}

TEST(SplitGuards, TilesAreSplitByAnIf) {
  expect_pass("split-guards", "for j in 3 { if (((t * 3) + j) < 16) { Y[0, ((t * 3) + j)] = 0:f32 } }",
              "if (t < 5) { for j in 3 { Y[0, ((t * 3) + j)] = 0:f32 } } else { Y[0, 15] = 0:f32 }");
}

TEST(SplitGuards, GuardsOfOtherVariablesStay) {
  const std::string body = "for i in 4 { if (S[i] < 1:f32) { Y[i, 0] = 0:f32 } }";
  expect_pass("split-guards", body, body);
}

TEST(SplitGuards, AGuardMayFailFirst) {
  expect_pass("split-guards", "for i in 4 { if ((1 - i) < 0) { Y[i, 0] = 0:f32 } }",
              "for it in 2 { Y[(it + 2), 0] = 0:f32 }");
}

// Rows 0 and 7 of the output lie beyond the edge of X, whose rows 0 .. 5 are read.
TEST(SplitGuards, PaddedReadsLeaveTheEdges) {
  expect_pass("split-guards", "for i in 8 { Y[i, 0] = select(((1 <= i) && (i < 7)), X[(i + -1), 0], 0:f32) }",
              "Y[0, 0] = 0:f32 for it in 6 { Y[(it + 1), 0] = X[it, 0] } Y[7, 0] = 0:f32");
}

TEST(SplitGuards, UnrolledAndVectorLoopsKeepPaddedReads) {
  const std::string body = "for i in 8 unrolled { Y[i, 0] = select((1 <= i), X[(i + -1), 0], 0:f32) }";
  expect_pass("split-guards", body, body);
}

TEST(SplitGuards, AnIfAroundLoopsStays) {
  const std::string body = "for i in 4 { if (i < 3) { for j in 4 { Y[i, j] = 0:f32 } } }";
  expect_pass("split-guards", body, body);
  expect_pass("split-guards", "for i in 4 { if (i < 3) { for j in 4 vectorized { Y[i, j] = 0:f32 } } }",
              "for i in 3 { for j in 4 vectorized { Y[i, j] = 0:f32 } }");
}

TEST(SplitGuards, AnElseIsNoGuard) {
  const std::string body = "for i in 4 { if (i < 3) { Y[i, 0] = 0:f32 } else { Y[i, 1] = 0:f32 } }";
  expect_pass("split-guards", body, body);
}

}  // namespace
}  // namespace tw::lower::test
