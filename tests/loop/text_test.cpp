// Printing and parsing programs.
#include "tests/harness/loop_interpreter.h"
#include "tests/loop/helpers.h"

namespace tw::loop::test {
namespace {

// Everything the text form has, as it is printed.
const char* const kEverything = R"(program "mlp/1"

kernel dense(X: f32[8, 64] param, W: f32[64, 32] param, Y: f32[8, 32] param written) tiles t in 8 {
  let base = (t * 2)
  alloc acc: f32[2, 16] register
  for m in 2 unrolled {
    acc[m, ramp(0, 1, 16)] = broadcast(0:f32, 16)
  }
  for k in 64 {
    prefetch(1) W[(k + 8), 0]
    let w = W[k, ramp(0, 1, 16)] {
      for m in 2 unrolled {
        acc[m, ramp(0, 1, 16)] = fma(broadcast(X[(base + m), k], 16), w, acc[m, ramp(0, 1, 16)])
      }
    }
    prefetch(2) W[0, k]
  }
  if (t < 3) {
    for n in 32 vectorized {
      Y[t, n] = acc[0, n] if (n < 16)
    }
  } else {
    block {
      Y[t, ramp(0, 1, 16)] = acc[0, ramp(0, 1, 16)]
    }
  }
}

kernel "odd name"("a b": i8[] param written, if: bool[3] param written) {
  alloc tmp: f64[1] stack {
    tmp[0] = 1.5:f64
  }
  alloc big: bf16[1000] scratch {
  }
  "a b"[] = 3:i8
  "if"[2] = true
  if if[0] {
  }
  if (if[1] && !(if[2])) {
    let unused = -1
  }
}

kernel tiled(A: f32[4, 8] param, B: f32[8] param written) {
  alloc sum: f32[8] register
  for i in 8 threads {
    sum[i] = 0:f32
  }
  for k in 4 pipelined(3) {
    alloc s: f32[8] stack
    for i2 in 8 threads {
      s[i2] = A[k, i2]
    }
    for j in 8 threads {
      sum[j] = (sum[j] + s[(7 - j)])
    }
  }
  for m in 8 threads {
    for h in 1 matrix {
      B[m] = sum[(m + h)]
    }
  }
}

kernel nothing() {
}
)";

TEST(LoopText, PrintsWhatItParses) { EXPECT_EQ(to_string(parse_program(kEverything)), kEverything); }

TEST(LoopText, ParsedProgramsVerify) { EXPECT_NO_THROW(verify(parse_program(kEverything))); }

TEST(LoopText, KernelHeadsThatAreTooLongGetALineForEachParameter) {
  std::string params;
  for (int i = 0; i < 9; ++i) params += (i ? ", p" : "p") + std::to_string(i) + ": f32[1000, 1000] param";
  const std::string once = to_string(parse_program("program p kernel k(" + params + ") {}"));
  EXPECT_CONTAINS(once, "kernel k(\n    p0: f32[1000, 1000] param,\n    p1: f32[1000, 1000] param,\n");
  EXPECT_EQ(to_string(parse_program(once)), once);
}

TEST(LoopText, StructureSurvives) {
  const Program program = parse_program(kEverything);
  ASSERT_EQ(program.kernels.size(), 4u);
  EXPECT_EQ(program.name, "mlp/1");
  const Kernel& dense = program.kernels[0];
  EXPECT_EQ(dense.tile_var, "t");
  EXPECT_EQ(dense.tiles, 8);
  EXPECT_EQ(dense.written, std::vector<std::string>{"Y"});
  ASSERT_EQ(dense.body.size(), 1u) << "a let without braces holds the rest of its list";
  const Stmt alloc = dense.body[0]->body.at(0);
  EXPECT_EQ(alloc->allocated.scope, Scope::kRegister);
  ASSERT_EQ(alloc->body.size(), 3u);
  EXPECT_EQ(alloc->body[0]->for_kind, ForKind::kUnrolled);
  EXPECT_EQ(alloc->body[1]->body.size(), 3u) << "a let with braces ends with them";
  EXPECT_TRUE(bool(alloc->body[2]->body[0]->body[0]->predicate));
  EXPECT_EQ(program.kernels[1].tile_var, "");
  EXPECT_EQ(program.kernels[1].tiles, 1);
}

// What walks over tiles survives; the interpreter does every tile once, whether or not the blocks divide them.
TEST(LoopText, BlocksWalkOverTiles) {
  const Program program = parse_program(
      "program p kernel k(Y: f32[7] param written) tiles t in 7 units 3 together 1 { Y[t] = cast<f32>(t) }");
  EXPECT_CONTAINS(to_string(program), "tiles t in 7 units 3 together 1 {");
  EXPECT_EQ(program.kernels[0].blocks(), 3);
  Memory memory = {{"Y", {DataType::f32(), {7}, std::vector<double>(7, -1), {}}}};
  interpret(program, memory);
  EXPECT_EQ(memory.at("Y").floats, (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  Program few = program;
  few.kernels[0].units = 9;
  EXPECT_EQ(few.kernels[0].blocks(), 7) << "no block without a tile";
}

TEST(LoopText, AnIfAfterAStoreIsAStatementOfItsOwn) {
  const Program program = parse_program(
      "program p kernel k(Y: f32[4] param written) tiles t in 4 { Y[t] = 1:f32 if (t < 2) { Y[t] = 2:f32 } }");
  ASSERT_EQ(program.kernels[0].body.size(), 2u);
  EXPECT_FALSE(bool(program.kernels[0].body[0]->predicate));
  EXPECT_EQ(program.kernels[0].body[1]->kind, StmtKind::kIf);
}

TEST(LoopText, CommentsAndLineBreaksDoNotMatter) {
  const std::string text = "program p # name\nkernel k(\n  Y: f32[2] param written)\n{ for i in 2 { Y[\ni] = 0:f32 } }";
  EXPECT_EQ(to_string(parse_program(text)),
            "program p\n\nkernel k(Y: f32[2] param written) {\n  for i in 2 {\n    Y[i] = 0:f32\n  }\n}\n");
}

struct BadText {
  const char* body;     // of kernel k(Y: f32[4] param written, B: bool[4] param) tiles t in 4
  const char* message;  // part of the UserError
};

TEST(LoopText, ErrorsNameLineColumnAndCause) {
  const BadText cases[] = {
      {"Y[t] = 1:f32 }", "expected 'kernel'"},
      {"Y[t] = ", "expected an expression, found '}'"},
      {"Y[u] = 1:f32", "unknown variable 'u'"},
      {"Z[t] = 1:f32", "unknown buffer 'Z'"},
      {"Y[t] = Z[t]", "'Z' is no tensor or buffer here"},
      {"Y[t] = 1", "the value is i64, the place f32"},
      {"Y[ramp(0, 1, 4)] = broadcast(1:f32, 2)", "the value is f32x2, the place f32x4"},
      {"Y[1:f32] = 1:f32", "an index is an integer, not f32"},
      {"Y[t] = 1:f32 if t", "a predicate is bool, not i64"},
      {"Y[t] = 1:f32 if B[ramp(0, 1, 2)]", "a predicate of 2 lanes for 1"},
      {"if t { }", "the condition of an if is one bool, not i64"},
      {"if B[ramp(0, 1, 2)] { }", "the condition of an if is one bool"},
      {"Y[t] = 1:f32 if B[ramp(0, 1, 2)] { }", "the condition of an if is one bool"},
      {"for i in -1 { }", "an extent is not negative"},
      {"for i in n { }", "expected an extent, found 'n'"},
      {"for i in 3 vectorised { }", "expected '{', found 'vectorised'"},
      {"alloc a: f32[3] { }", "expected param, scratch, stack or register"},
      {"alloc a: f32[3] param { }", "only a kernel's parameters have the scope param"},
      {"alloc a: f32x4[3] stack { }", "'f32x4' is no scalar type"},
      {"prefetch(3) Y[t]", "the cache level of a prefetch is 1 or 2"},
      {"prefetch(1) Y[ramp(0, 1, 4)]", "a prefetch has one address"},
      {"while", "expected a statement, found 'while'"},
      {"for i in 2 { Y[i] = 0:f32 } Y[i] = 0:f32", "unknown variable 'i'"},
      {"alloc a: f32[3] stack { } a[0] = 0:f32", "unknown buffer 'a'"},
  };
  for (const BadText& bad : cases) {
    const std::string text =
        std::string("program p\nkernel k(Y: f32[4] param written, B: bool[4] param) tiles t in 4 {\n") + bad.body +
        "\n}\n";
    const std::string message = user_error([&] { parse_program(text); });
    EXPECT_CONTAINS(message, bad.message);
    EXPECT_CONTAINS(message, "line ");
  }
  EXPECT_CONTAINS(user_error([] { parse_program("program p\nkernel k() {\n  Y[0] = 1:f32\n}"); }), "line 3, column 3:");
  EXPECT_CONTAINS(user_error([] { parse_program("module p"); }), "expected 'program'");
  EXPECT_CONTAINS(user_error([] { parse_program("program p kernel k() {"); }), "expected '}', found the end");
}

}  // namespace
}  // namespace tw::loop::test
