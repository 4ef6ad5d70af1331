// single-turns: a loop that waits for a computed index is that turn.
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

TEST(SingleTurns, OneTurnIsLeft) {
  expect_pass("single-turns", "for i in 4 { for j in 4 { Y[i, j] = (Y[i, j] + select((I[t] == i), S[j], 0:f32)) } }",
              "let i = I[t] { if ((0 <= i) && (i < 4)) { for j in 4 { Y[i, j] = (Y[i, j] + S[j]) } } }");
}

TEST(SingleTurns, TheIndexMayBeMovedAndHaveOtherConditions) {
  expect_pass(
      "single-turns",
      "for i in 4 { Y[i, 0] = (Y[i, 0] + select(((I[t] == ((t * 4) + i)) && (S[i] < 1:f32)), S[i], 0:f32)) }",
      "let i = (I[t] - (t * 4)) { if ((0 <= i) && (i < 4)) { if (S[i] < 1:f32) { Y[i, 0] = (Y[i, 0] + S[i]) } } }");
}

TEST(SingleTurns, OfOtherReductionsToo) {
  expect_pass("single-turns", "for i in 4 { Y[i, 0] = (Y[i, 0] * select((I[t] == i), S[i], 1:f32)) }",
              "let i = I[t] { if ((0 <= i) && (i < 4)) { Y[i, 0] = (Y[i, 0] * S[i]) } }");
  expect_pass("single-turns", "for i in 4 { Y[i, 0] = max(select((I[t] == i), S[i], -inf:f32), Y[i, 0]) }",
              "let i = I[t] { if ((0 <= i) && (i < 4)) { Y[i, 0] = max(Y[i, 0], S[i]) } }");
  const char* other = "for i in 4 { Y[i, 0] = max(Y[i, 0], select((I[t] == i), S[i], 0:f32)) }";
  expect_pass("single-turns", other, other);
}

TEST(SingleTurns, LoopsThatDoMoreStay) {
  for (const char* body : {
           "for i in 4 { Y[i, 0] = (Y[i, 0] + select((I[i] == i), S[i], 0:f32)) }",
           "for i in 4 { Y[i, 0] = (Y[i, 0] + select((I[t] == i), S[i], 1:f32)) }",
           "for i in 4 { Y[i, 0] = (Y[i, 1] + select((I[t] == i), S[i], 0:f32)) }",
           "for i in 4 { Y[i, 0] = (Y[i, 0] + select((I[t] == (i * 2)), S[i], 0:f32)) }",
           "for i in 4 { Y[i, 0] = select((I[t] == i), S[i], 0:f32) }",
       })
    expect_pass("single-turns", body, body);
}

}  // namespace
}  // namespace tw::lower::test
