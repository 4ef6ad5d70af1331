// Statements: loops, lets, branches, tiles, prefetches, shared expressions, and what is refused.
#include <functional>

#include "support/error.h"
#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

TEST(Control, NestedLoopsOfOddExtents) {
  check_text(R"(program loops
    kernel k(X: i32[5, 3, 7] param, Y: i32[7, 5, 3] param written, S: i32[5] param written) tiles t in 5 {
      S[t] = 0:i32
      for i in 3 {
        for j in 7 { Y[j, t, i] = X[t, i, j] * 3:i32 }
        for j in 1 { S[t] = S[t] + X[t, i, j] }
        for j in 0 { S[t] = 99:i32 }
      }
    })");
}

TEST(Control, TilesAreTakenApartByLets) {
  check_text(R"(program lets
    kernel k(X: f32[4, 6, 5] param, Y: f32[5, 4, 6] param written) tiles t in 24 {
      let a = floordiv(t, 6)
      let b = floormod(t, 6)
      for i in 5 {
        let c = i + 0
        let doubled = X[a, b, c] * 2:f32
        Y[c, a, b] = doubled + doubled
      }
    })");
}

TEST(Control, LetsHoldVectorsBoolsAndTuples) {
  for (const int lanes : {4, 7, 16}) {
    check_text(R"(program tuple
      kernel k(X: f32[3, $L] param, M: f32[$L] param written, I: i64[$L] param written) {
        M[ramp(0, 1, $L)] = broadcast(-inf:f32, $L)
        I[ramp(0, 1, $L)] = broadcast(-1, $L)
        for i in 3 {
          let x = X[i, ramp(0, 1, $L)]
          let better = M[ramp(0, 1, $L)] < x
          let m = select(better, x, M[ramp(0, 1, $L)])
          let at = select(better, broadcast(i, $L), I[ramp(0, 1, $L)])
          M[ramp(0, 1, $L)] = m
          I[ramp(0, 1, $L)] = at
        }
      })",
               lanes);
  }
}

TEST(Control, LetsOfLoadedNumbersAreIndices) {
  check_text(R"(program indirect
    kernel k(I: i64[9] param, J: i32[9] param, X: f32[10, 10] param, Y: f32[9, 2] param written) tiles t in 9 {
      let row = I[t]
      let column = J[t]
      Y[t, 0] = X[row, column]
      for j in 1 { Y[t, j + 1] = X[row + 1, column + 1:i32] }
    })",
             1, DataType::f32(),
             {{"I", small_ints(DataType::i64(), {9}, 1, 0, 8)}, {"J", small_ints(DataType::i32(), {9}, 2, 0, 8)}});
}

TEST(Control, Branches) {
  check_text(R"(program branches
    kernel k(P: bool[20] param, Y: i32[20, 3] param written) tiles t in 20 {
      Y[t, 0] = 0:i32
      if P[t] { Y[t, 0] = 1:i32 }
      if (t < 7 && !(P[t])) {
        let u = t * 3
        if (u < 9) { Y[floordiv(u, 3), 1] = cast<i32>(u) } else { Y[t, 1] = 5:i32 }
      } else {
        for i in 2 { Y[t, i + 1] = cast<i32>(i) }
      }
      block { Y[t, 2] = 3:i32 if P[t] }
      Y[t, 1] = 4:i32 if true
    })");
}

TEST(Control, ManyKernelsRunInOrder) {
  check_text(R"(program chain
    kernel one(X: f32[11] param, T: f32[11] param written) tiles t in 11 { T[t] = X[t] + 1:f32 }
    kernel two(T: f32[11] param, Y: f32[11] param written) tiles t in 11 { Y[t] = T[t] * T[10 - t] }
    kernel "odd name"(Y: f32[11] param written) tiles t in 3 { Y[t] = Y[t] - 1:f32 })");
}

TEST(Control, ScalarsAreBuffersToo) {
  check_text("program scalar kernel k(X: f32[] param, Y: f32[] param written) { Y[] = X[] * X[] }");
}

TEST(Control, PrefetchesAreEmittedAndNeverFault) {
  const loop::Program program = parse(R"(program prefetch
    kernel k(X: f32[64] param, Y: f32[64] param written) tiles t in 64 {
      prefetch(1) X[t + 4000000]
      prefetch(2) Y[t]
      Y[t] = X[t]
    })");
  const std::string assembly = compile_assembly(program, host_level());
  EXPECT_NE(assembly.find("prefetcht0"), std::string::npos);
  EXPECT_NE(assembly.find("prefetcht1"), std::string::npos);
  const JitModule jit(program);
  alignas(64) float x[64], y[64] = {};
  std::fill(std::begin(x), std::end(x), 3.0f);
  void* table[] = {x, y};
  jit.function("k")(table, nullptr, 0, 64);
  EXPECT_EQ(y[63], 3.0f);
}

TEST(Control, OnlyTheTilesAskedForAreRun) {
  const JitModule jit(parse("program tiles kernel k(Y: i64[10] param written) tiles t in 10 { Y[t] = t + 1 }"));
  alignas(64) int64_t y[10] = {};
  void* table[] = {y};
  const auto run = jit.function("k");
  run(table, nullptr, 4, 4);
  run(table, nullptr, 7, 3);
  for (const int64_t value : y) EXPECT_EQ(value, 0);
  run(table, nullptr, 3, 6);
  for (int64_t t = 0; t < 10; ++t) EXPECT_EQ(y[t], t >= 3 && t < 6 ? t + 1 : 0);
}

// x + x sixty times over is a tree of 2^60 additions, but a graph of 60.
TEST(Control, SharedExpressionsAreEmittedOnce) {
  Expr x = load("X", DataType::i64(), {0});
  for (int i = 0; i < 60; ++i) x = x + x;
  Expr guarded = load("X", DataType::i64(), {load("X", DataType::i64(), {0})});
  for (int i = 0; i < 60; ++i) guarded = guarded + guarded;
  const loop::Program program{
      "shared",
      {make_kernel("k", {param("X", DataType::i64(), {1}), param("Y", DataType::i64(), {2})}, {"Y"},
                   {loop::make_store("Y", {0}, x),
                    loop::make_store("Y", {1}, select(load("X", DataType::i64(), {0}) == 0, guarded, 5))})}};
  const JitModule jit(program);
  alignas(64) int64_t in[1] = {3};
  alignas(64) int64_t out[2] = {};
  void* table[] = {in, out};
  jit.function("k")(table, nullptr, 0, 1);
  EXPECT_EQ(out[0], int64_t{3} << 60);
  EXPECT_EQ(out[1], 5);
}

std::string refusal(const std::string& text, const CpuLevel& level) {
  try {
    compile_object(parse(text), level);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Control, WhatIsNotLoweredIsRefused) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"program p kernel k(Y: f32[4] param written) { for i in 4 unrolled { Y[i] = 1:f32 } }", "loop i is not lowered"},
      {"program p kernel k(Y: f32[4] param written) { for i in 4 vectorized { Y[i] = 1:f32 } }",
       "loop i is not lowered"},
      {"program p kernel k(Y: f32[4] param written) { alloc r: f32[4] register for i in 4 { r[i] = 1:f32 } }",
       "register buffer r is no constant"},
      {"program p kernel k(Y: f32[4] param written) { Y[0] = exp(Y[1]) }", "the call of exp is not expanded"},
      {"program p kernel k(Y: f16[4] param written) { Y[0] = fma(Y[1], Y[2], Y[3]) }", "fma of f16 is to be expanded"},
  };
  for (const Case& c : cases)
    EXPECT_NE(refusal(c.text, host_level()).find(c.message), std::string::npos) << refusal(c.text, host_level());
}

TEST(Control, ImportsAreRefusedByName) {
  const CpuLevel old = *find_level("x86-64-v2");
  EXPECT_NE(
      refusal("program p kernel k(Y: f32[4] param written) { Y[0] = fma(Y[1], Y[2], Y[3]) }", old).find("symbol fmaf"),
      std::string::npos);
  EXPECT_NE(refusal("program p kernel k(X: f16[4] param, Y: f32[4] param written) { Y[0] = cast<f32>(X[0]) }", old)
                .find("symbol __extendhfsf2"),
            std::string::npos);
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
