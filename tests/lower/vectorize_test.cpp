// vectorize: one statement for all lanes.
#include "support/error.h"
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

TEST(Vectorize, StoresThatMoveBecomeVectors) {
  expect_pass("vectorize", "for j in 16 vectorized { Y[t, j] = (X[t, j] + X[t, 0]) }",
              "Y[t, ramp(0, 1, 16)] = (X[t, ramp(0, 1, 16)] + broadcast(X[t, 0], 16))");
  expect_pass("vectorize", "for j in 4 vectorized { Y[t, j] = 1:f32 }", "Y[t, ramp(0, 1, 4)] = broadcast(1:f32, 4)");
}

TEST(Vectorize, AVectorOfOneIsAScalar) {
  expect_pass("vectorize", "for j in 1 vectorized { Y[t, j] = X[t, j] }", "Y[t, 0] = X[t, 0]");
}

TEST(Vectorize, ReductionsGoOverLanes) {
  expect_pass("vectorize", "for j in 16 vectorized { S[t] = (S[t] + X[t, j]) }",
              "S[t] = (S[t] + reduce_add(X[t, ramp(0, 1, 16)]))");
  expect_pass("vectorize", "for j in 16 vectorized { S[t] = max(S[t], X[t, j]) }",
              "S[t] = max(S[t], reduce_max(X[t, ramp(0, 1, 16)]))");
  expect_pass("vectorize", "for j in 16 vectorized { S[t] = fma(X[t, j], X[0, j], S[t]) }",
              "S[t] = (S[t] + reduce_add((X[t, ramp(0, 1, 16)] * X[0, ramp(0, 1, 16)])))");
}

TEST(Vectorize, ATermThatDoesNotMoveCountsForEveryLane) {
  expect_pass("vectorize", "for j in 5 vectorized { S[t] = (S[t] + X[t, 0]) }",
              "S[t] = (S[t] + reduce_add(broadcast(X[t, 0], 5)))");
}

TEST(Vectorize, GuardsBecomePredicates) {
  const std::string text = after("vectorize", "for j in 4 vectorized { if (j < 3) { Y[t, j] = X[t, j] } }");
  const std::string condition = "(ramp(0, 1, 4) < broadcast(3, 4))";
  EXPECT_NE(text.find("Y[t, ramp(0, 1, 4)] = (X[t, ramp(0, 1, 4)] if " + condition + ") if " + condition),
            std::string::npos)
      << text;
  expect_pass("vectorize", "for j in 4 vectorized { if (t < 3) { Y[t, j] = 0:f32 } }",
              "if (t < 3) { Y[t, ramp(0, 1, 4)] = broadcast(0:f32, 4) }");
}

TEST(Vectorize, GuardedLanesOfAReductionCountAsItsIdentity) {
  const std::string sum = after("vectorize", "for j in 4 vectorized { if (j < 3) { S[t] = (S[t] + X[t, j]) } }");
  EXPECT_NE(sum.find("reduce_add(select((ramp(0, 1, 4) < broadcast(3, 4)), (X[t, ramp(0, 1, 4)] if (ramp(0, 1, 4) < "
                     "broadcast(3, 4))), broadcast(0:f32, 4)))"),
            std::string::npos)
      << sum;
  const std::string largest = after("vectorize", "for j in 4 vectorized { if (j < 3) { S[t] = max(S[t], X[t, j]) } }");
  EXPECT_NE(largest.find("broadcast(-inf:f32, 4)"), std::string::npos) << largest;
}

TEST(Vectorize, AStoreOfAllLanesHappensWhenAnyLaneWants) {
  expect_pass("vectorize", "for j in 4 vectorized { if (j < 3) { S[t] = 1:f32 } }",
              "block { S[t] = 1:f32 if reduce_or((ramp(0, 1, 4) < broadcast(3, 4))) }");
}

TEST(Vectorize, LanesThatDisagreeAreRefused) {
  EXPECT_THROW(after("vectorize", "for j in 4 vectorized { S[t] = X[t, j] }"), InternalError);
  EXPECT_THROW(after("vectorize", "for j in 4 vectorized { S[t] = (S[t] - X[t, j]) }"), InternalError);
}

TEST(Vectorize, LetsWiden) {
  expect_pass("vectorize", "for j in 4 vectorized { let a = X[t, j] { Y[t, j] = (a * a) } }",
              "let a = X[t, ramp(0, 1, 4)] { Y[t, ramp(0, 1, 4)] = (a * a) }");
}

}  // namespace
}  // namespace tw::lower::test
