// unroll: copies of the body, with loops and lets of their own names.
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

TEST(Unroll, CopiesInOrder) {
  expect_pass("unroll", "for i in 3 unrolled { S[i] = 0:f32 }", "S[0] = 0:f32 S[1] = 0:f32 S[2] = 0:f32");
}

TEST(Unroll, NamesInsideStayUnique) {
  expect_pass("unroll", "for i in 2 unrolled { for j in 3 { let a = X[i, j] { Y[i, j] = a } } }",
              "for ju0 in 3 { let au0 = X[0, ju0] { Y[0, ju0] = au0 } } for ju1 in 3 { let au1 = X[1, ju1] { Y[1, ju1] "
              "= au1 } }");
}

TEST(Unroll, NestedLoopsMultiply) {
  expect_pass("unroll", "for i in 2 unrolled { for j in 2 unrolled { Y[i, j] = 0:f32 } }",
              "Y[0, 0] = 0:f32 Y[0, 1] = 0:f32 Y[1, 0] = 0:f32 Y[1, 1] = 0:f32");
}

TEST(Unroll, OtherLoopsStay) { expect_pass("unroll", "for i in 3 { S[i] = 0:f32 }", "for i in 3 { S[i] = 0:f32 }"); }

TEST(Unroll, BuffersOfEveryCopyAreItsOwn) {
  expect_pass(
      "unroll", "for i in 2 unrolled { alloc a: f32[1] register { a[0] = 0:f32 S[i] = a[0] } }",
      "alloc a: f32[1] register { a[0] = 0:f32 S[0] = a[0] } alloc a: f32[1] register { a[0] = 0:f32 S[1] = a[0] }");
}

}  // namespace
}  // namespace tw::lower::test
