// What the interpreter computes.
#include <cmath>

#include "tests/harness/loop_interpreter.h"
#include "tests/loop/helpers.h"

namespace tw::loop::test {
namespace {

using Values = std::vector<double>;
using Ints = std::vector<int64_t>;

// Runs one kernel with the output Y: f32[n] and the input X: f32[m].
Values run_f32(const std::string& body, int64_t n, Values x) {
  Memory memory;
  const auto m = static_cast<int64_t>(x.size());
  memory["X"] = floats({m}, std::move(x));
  memory["Y"] = floats({n}, Values(n, -7));
  run(fmt::format("program p kernel k(X: f32[{}] param, Y: f32[{}] param written) {{ {} }}", m, n, body), memory);
  return memory["Y"].floats;
}

TEST(Interpreter, MatrixProductOfOddShape) {
  constexpr int kM = 3, kN = 7, kK = 5;
  Memory memory;
  Values a(kM * kK), b(kK * kN), expected(kM * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 4) - 1;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i % 5) - 2;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      for (int k = 0; k < kK; ++k) expected[m * kN + n] += a[m * kK + k] * b[k * kN + n];
    }
  }
  memory["A"] = floats({kM, kK}, a);
  memory["B"] = floats({kK, kN}, b);
  memory["C"] = floats({kM, kN}, Values(kM * kN));
  run(R"(program p
    kernel gemm(A: f32[3, 5] param, B: f32[5, 7] param, C: f32[3, 7] param written) tiles m in 3 {
      alloc acc: f32[7] stack
      for n in 7 unrolled { acc[n] = 0:f32 }
      for k in 5 {
        acc[ramp(0, 1, 7)] = fma(broadcast(A[m, k], 7), B[k, ramp(0, 1, 7)], acc[ramp(0, 1, 7)])
      }
      for n in 7 vectorized { C[m, n] = acc[n] }
    })",
      memory);
  EXPECT_EQ(memory["C"].floats, expected);
}

TEST(Interpreter, KernelsRunInOrderOnOneMemory) {
  Memory memory;
  memory["X"] = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  memory["T"] = floats({6}, Values(6));
  memory["Y"] = floats({1}, {0});
  run(R"(program p
    kernel first(X: f32[6] param, T: f32[6] param written) { for i in 6 { T[i] = X[i] * 2:f32 } }
    kernel second(T: f32[3, 2] param, Y: f32[] param written) {
      Y[] = 0:f32
      for i in 3 { for j in 2 { Y[] = Y[] + T[i, j] } }
    })",
      memory);
  EXPECT_EQ(memory["Y"].floats, Values{42}) << "shapes may differ, the number of elements may not";
}

TEST(Interpreter, EachOperationRounds) {
  EXPECT_EQ(run_f32("Y[0] = (X[0] + X[1]) - X[0]", 1, {16777216, 1}), Values{0});
  EXPECT_EQ(run_f32("Y[0] = cast<f32>((cast<f16>(X[0]) + cast<f16>(X[1])) - cast<f16>(X[0]))", 1, {2048, 1}),
            Values{0});
  EXPECT_EQ(run_f32("Y[0] = cast<f32>((cast<f64>(X[0]) + cast<f64>(X[1])) - cast<f64>(X[0]))", 1, {16777216, 1}),
            Values{1});
  EXPECT_EQ(run_f32("Y[0] = exp(X[0])", 1, {1}), Values{static_cast<float>(std::exp(1.0))});
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 2)] = pow(X[ramp(0, 1, 2)], broadcast(0.5:f32, 2))", 2, {2, 4}),
            (Values{static_cast<float>(std::sqrt(2.0)), 2}));
}

TEST(Interpreter, IntegersOfEachWidth) {
  Memory memory;
  memory["U"] = ints({2}, {255, 1}, DataType(ScalarType::kU8));
  memory["I"] = ints({2}, {100, 0}, DataType(ScalarType::kI8));
  memory["B"] = ints({2}, {0, 0}, DataType::boolean());
  run(R"(program p kernel k(U: u8[2] param written, I: i8[2] param written, B: bool[2] param written) {
      B[0] = U[1] < U[0]
      B[1] = cast<bool>(I[1])
      U[1] = U[0] + U[1]
      I[1] = I[0] + I[0]
    })",
      memory);
  EXPECT_EQ(memory["U"].ints, (Ints{255, 0}));
  EXPECT_EQ(memory["I"].ints, (Ints{100, -56}));
  EXPECT_EQ(memory["B"].ints, (Ints{1, 0}));
}

TEST(Interpreter, SelectEvaluatesOnlyWhatItPicks) {
  const std::string scalar = "for i in 4 { Y[i] = select(i < 3, X[i], 9:f32) }";
  EXPECT_EQ(run_f32(scalar, 4, {1, 2, 3}), (Values{1, 2, 3, 9}));
  const std::string lanes =
      "Y[ramp(0, 1, 4)] = select(ramp(0, 1, 4) < broadcast(3, 4), X[ramp(0, 1, 4)], broadcast(9:f32, 4))";
  EXPECT_EQ(run_f32(lanes, 4, {1, 2, 3}), (Values{1, 2, 3, 9}));
  const std::string other =
      "Y[ramp(0, 1, 4)] = select(ramp(0, 1, 4) <= broadcast(-1, 4), X[ramp(9, 1, 4)], X[ramp(0, 1, 4)])";
  EXPECT_EQ(run_f32(other, 4, {1, 2, 3, 4}), (Values{1, 2, 3, 4})) << "no lane picks the first operand";
  const std::string one = "Y[ramp(0, 1, 4)] = select(X[0] < 0:f32, X[ramp(9, 1, 4)], X[ramp(0, 1, 4)])";
  EXPECT_EQ(run_f32(one, 4, {1, 2, 3, 4}), (Values{1, 2, 3, 4})) << "one condition for all lanes";
  const std::string nested =
      "Y[ramp(0, 1, 4)] = select(ramp(0, 1, 4) < broadcast(3, 4), "
      "select(broadcast(0, 4) < ramp(0, 1, 4), X[ramp(-1, 1, 4)], broadcast(5:f32, 4)), broadcast(9:f32, 4))";
  EXPECT_EQ(run_f32(nested, 4, {1, 2}), (Values{5, 1, 2, 9}));
  const std::string divides = "Y[0] = cast<f32>(select(X[0] == 0:f32, 0, 7 / cast<i64>(X[0])))";
  EXPECT_EQ(run_f32(divides, 1, {0}), Values{0});
}

TEST(Interpreter, SharedOperandsOfSelectsUnderDifferentMasks) {
  // x is used unmasked, under a mask and under its complement; only lane 0 may read X[lane + 2].
  const Expr lane = ramp(0, 1, 3);
  const Expr x = load("X", DataType::f32(), {lane});
  const Expr far = load("X", DataType::f32(), {ramp(2, 1, 3)});
  const Expr first = lane < broadcast(1, 3);
  const Expr picked = select(first, (far * far) + x, x * x);
  const Expr value = (picked + select(first, x, picked)) * x;
  Kernel kernel{"k", {{"X", DataType::f32(), {3}}, {"Y", DataType::f32(), {3}}}, {"Y"}, "", 1, 1, {}};
  kernel.body = {make_store("Y", {lane}, value)};
  Memory memory;
  memory["X"] = floats({3}, {2, 3, 5});
  memory["Y"] = floats({3}, {0, 0, 0});
  interpret({"p", {kernel}}, memory);
  EXPECT_EQ(memory["Y"].floats, (Values{(27 + 2) * 2, (9 + 9) * 3, (25 + 25) * 5}));
}

TEST(Interpreter, SharedOperandsAreEvaluatedAnewInEachTurn) {
  const Expr i = var("i");
  const Expr x = load("X", DataType::f32(), {i});
  const Expr v = load("X", DataType::f32(), {ramp(i * 2, 1, 2)});
  Kernel kernel{"k", {{"X", DataType::f32(), {4}}, {"Y", DataType::f32(), {6}}}, {"Y"}, "", 1, 1, {}};
  kernel.body = {make_for("i", 2, ForKind::kSerial,
                          {make_store("Y", {ramp(i * 2, 1, 2)}, v * v), make_store("Y", {i + 4}, x + x)})};
  Memory memory;
  memory["X"] = floats({4}, {2, 3, 5, 7});
  memory["Y"] = floats({6}, Values(6));
  interpret({"p", {kernel}}, memory);
  EXPECT_EQ(memory["Y"].floats, (Values{4, 9, 25, 49, 4, 6}));
}

TEST(Interpreter, SharedOperandsAreEvaluatedOnce) {
  Expr x = load("X", DataType::f32(), {0});
  Expr v = broadcast(x, 4);
  for (int i = 0; i < 100; ++i) {  // 2^100 paths, also through selects under masks
    x = (x + x) * float_imm(0.5);
    v = select(ramp(0, 1, 4) < broadcast(i % 4, 4), v, v + broadcast(x, 4));
  }
  Kernel kernel{"k", {{"X", DataType::f32(), {1}}, {"Y", DataType::f32(), {4}}}, {"Y"}, "", 1, 1, {}};
  kernel.body = {make_store("Y", {ramp(0, 1, 4)}, v)};
  Memory memory;
  memory["X"] = floats({1}, {1});
  memory["Y"] = floats({4}, Values(4));
  interpret({"p", {kernel}}, memory);
  EXPECT_EQ(memory["Y"].floats, (Values{26, 51, 76, 101}));
}

TEST(Interpreter, PredicatedLoadsGiveZeroAndReadNothing) {
  EXPECT_EQ(run_f32("for i in 3 { Y[i] = (X[i] if i < 2) }", 3, {1, 2}), (Values{1, 2, 0}));
  const std::string lanes = "Y[ramp(0, 1, 4)] = (X[ramp(-1, 1, 4)] if broadcast(0, 4) < ramp(0, 1, 4))";
  EXPECT_EQ(run_f32(lanes, 4, {1, 2, 3}), (Values{0, 1, 2, 3}));
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 2)] = (X[ramp(5, 1, 2)] if X[0] < 0:f32)", 2, {1}), (Values{0, 0}));
}

TEST(Interpreter, PredicatedStoresWriteOnlyWhereTheyHold) {
  EXPECT_EQ(run_f32("for i in 9 { Y[i] = 1:f32 if i < 2 }", 3, {0}), (Values{1, 1, -7}));
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 4)] = broadcast(1:f32, 4) if ramp(0, 1, 4) < broadcast(3, 4)", 3, {0}),
            (Values{1, 1, 1}));
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 4)] = broadcast(1:f32, 4) if X[0] < 0:f32", 3, {0}), (Values{-7, -7, -7}));
}

TEST(Interpreter, Vectors) {
  EXPECT_EQ(run_f32("Y[ramp(4, -2, 3)] = X[ramp(0, 1, 3)]", 5, {1, 2, 3}), (Values{3, -7, 2, -7, 1}));
  EXPECT_EQ(run_f32("Y[0] = reduce_add(X[ramp(0, 1, 4)])  Y[1] = reduce_max(X[ramp(0, 1, 4)])", 2, {1, 7, 3, 4}),
            (Values{15, 7}));
  EXPECT_EQ(run_f32("Y[0] = extract(X[ramp(0, 1, 4)], 2)", 1, {1, 7, 3, 4}), Values{3});
  EXPECT_EQ(run_f32("let v = X[ramp(0, 1, 2)]  Y[ramp(0, 1, 2)] = -(v) * v", 2, {2, 3}), (Values{-4, -9}));
  const std::string gather = "let at = cast<i64>(X[ramp(0, 1, 3)])  Y[ramp(0, 1, 3)] = X[at]";
  EXPECT_EQ(run_f32(gather, 3, {2, 0, 1}), (Values{1, 2, 0}));
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 2)] = fma(X[ramp(0, 1, 2)], X[ramp(0, 1, 2)], broadcast(1:f32, 2))", 2, {2, 3}),
            (Values{5, 10}));
  EXPECT_EQ(run_f32("Y[ramp(0, 1, 2)] = cast<f32>(bitcast<i32>(X[ramp(0, 1, 2)]))", 2, {0, 1}),
            (Values{0, 0x3f800000}));
}

TEST(Interpreter, ControlFlow) {
  EXPECT_EQ(run_f32("for i in 3 { if (i < 1) { Y[i] = 1:f32 } else { Y[i] = 2:f32 } }", 3, {0}), (Values{1, 2, 2}));
  EXPECT_EQ(run_f32("for i in 0 { Y[99] = 1:f32 }", 1, {0}), Values{-7});
  EXPECT_EQ(run_f32("block { Y[0] = 3:f32 } prefetch(1) X[100]", 1, {0}), Values{3}) << "a prefetch reads nothing";
  EXPECT_EQ(run_f32("let a = X[0] { Y[0] = a } let a = X[1] { Y[1] = a }", 2, {4, 5}), (Values{4, 5}));
  EXPECT_EQ(run_f32("let a = Y[0]  Y[0] = 1:f32  Y[1] = a", 2, {0}), (Values{1, -7})) << "a let is evaluated once";
}

TEST(Interpreter, AccessesOutsideABufferAreErrors) {
  const auto failing = [](const std::string& body) { return internal_error([&] { run_f32(body, 2, {1, 2, 3}); }); };
  EXPECT_EQ(failing("for i in 3 { Y[i] = X[i] }"), "kernel k, tile 0: in 'Y[i] = X[i]': index [2] is outside Y[2]");
  EXPECT_CONTAINS(failing("for i in 5 { Y[0] = X[i] }"), "index [3] is outside X[3]");
  EXPECT_CONTAINS(failing("Y[-1] = 0:f32"), "index [-1] is outside Y[2]");
  EXPECT_CONTAINS(failing("Y[0] = reduce_add(X[ramp(0, 1, 4)])"), "index [3] is outside X[3]");
  EXPECT_CONTAINS(failing("Y[0] = X[3] if false"), "outside X[3]");
  EXPECT_CONTAINS(failing("alloc a: f32[2, 3] stack  a[0, 3] = 1:f32"), "index [0,3] is outside a[2,3]");
}

TEST(Interpreter, ReadsOfWhatWasNeverWrittenAreErrors) {
  for (const char* scope : {"stack", "scratch", "register"}) {
    const auto failing = [&](const std::string& body) {
      return internal_error([&] { run_f32(fmt::format("alloc a: f32[2, 2] {} {}", scope, body), 2, {1}); });
    };
    EXPECT_CONTAINS(failing("a[1, 0] = 1:f32  Y[0] = a[1, 1]"),
                    "in 'Y[0] = a[1, 1]': a[1,1] is read before it is written");
    EXPECT_CONTAINS(
        failing("a[0, ramp(0, 1, 2)] = broadcast(1:f32, 2) if ramp(0, 1, 2) < broadcast(1, 2)  Y[0] = a[0, 1]"),
        "a[0,1] is read before it is written");
  }
  const std::string fresh = "for i in 2 { alloc a: f32[1] stack  if (i < 1) { a[0] = 1:f32 }  Y[0] = a[0] }";
  EXPECT_CONTAINS(internal_error([&] { run_f32(fresh, 1, {1}); }), "a[0] is read before it is written");
}

TEST(Interpreter, TilesMustNotMeetInOneElement) {
  const auto tiles = [](const std::string& body) {
    Memory memory;
    memory["Y"] = floats({4}, Values(4));
    run("program p kernel k(Y: f32[4] param written) tiles t in 3 { " + body + " }", memory);
    return memory["Y"].floats;
  };
  EXPECT_EQ(tiles("Y[t] = 1:f32  Y[t] = Y[t] + 1:f32"), (Values{2, 2, 2, 0}));
  const auto failing = [&](const std::string& body) { return internal_error([&] { tiles(body); }); };
  EXPECT_EQ(failing("Y[floordiv(t, 2)] = 1:f32"),
            "kernel k, tile 1: in 'Y[floordiv(t, 2)] = 1:f32': Y[0] is written, tile 0 writes it too");
  EXPECT_CONTAINS(failing("Y[ramp(t, 1, 2)] = broadcast(0:f32, 2)"), "tile 1:");
  EXPECT_CONTAINS(failing("Y[t] = 1:f32  if (0 < t) { Y[t] = Y[t - 1] }"), "Y[0] is read, tile 0 writes it");
  EXPECT_CONTAINS(failing("Y[t] = Y[t + 1]"), "tile 1: in 'Y[t] = Y[(t + 1)]': Y[1] is written, another tile reads it");
}

TEST(Interpreter, BuffersOfATileAreUndefinedInTheNext) {
  Memory memory;
  memory["Y"] = floats({2}, Values(2));
  const std::string text = R"(program p kernel k(Y: f32[2] param written) tiles t in 2 {
      alloc a: f32[1] scratch
      if (t < 1) { a[0] = 1:f32 }
      Y[t] = a[0]
    })";
  EXPECT_CONTAINS(internal_error([&] { run(text, memory); }), "tile 1: in 'Y[t] = a[0]'");
}

TEST(Interpreter, UndefinedIntegerOperationsAreErrors) {
  const auto failing = [](const std::string& body) { return internal_error([&] { run_f32(body, 2, {0, 64}); }); };
  EXPECT_CONTAINS(failing("Y[0] = cast<f32>(1 / cast<i64>(X[0]))"), "integer division by zero");
  EXPECT_CONTAINS(failing("Y[0] = cast<f32>(1 << cast<i64>(X[1]))"), "shift by the width of the type or more");
}

TEST(Interpreter, MemoryMustFitTheParameters) {
  const Program program = parse_program("program p kernel k(X: f32[3] param) {}");
  const auto failing = [&](Memory memory) { return internal_error([&] { interpret(program, memory); }); };
  EXPECT_CONTAINS(failing({}), "kernel k: memory holds no X");
  EXPECT_CONTAINS(failing({{"X", floats({2}, {0, 0})}}), "X is f32 with 2 elements in memory, not f32 with 3");
  EXPECT_CONTAINS(failing({{"X", floats({3}, {0, 0, 0}, DataType::f64())}}), "X is f64");
}

TEST(Interpreter, BrokenProgramsAreNotRun) {
  Memory memory;
  memory["X"] = floats({1}, {0});
  Kernel kernel{"k", {{"X", DataType::f32(), {1}}}, {}, "", 1, 1, {make_store("X", {0}, float_imm(1))}};
  EXPECT_CONTAINS(internal_error([&] { interpret({"p", {kernel}}, memory); }), "does not list X as written");
}

}  // namespace
}  // namespace tw::loop::test
