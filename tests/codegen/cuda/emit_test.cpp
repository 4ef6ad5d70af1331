// The text of kernels: what threads share, own and combine, and what whole vectors move. What the loops compute is
// checked on the interpreter (tests/tune/construct_gpu_test.cpp); NVRTC compiles the text where it is installed.
// Size: one program for each form of text, and helpers that all of them use.
#include "codegen/cuda/emit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/cuda/emit_expr.h"
#include "codegen/cuda/nvrtc.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

loop::Program program(const std::string& body,
                      const std::string& signature = "(X: f32[2, 1024] param, Y: f32[2, 1024] param written)") {
  return loop::parse_program("program p\n\nkernel k" + signature + " tiles t in 2 {\n" + body + "\n}\n");
}

// The text of the kernel alone; compiles it.
CudaSource emitted(const loop::Program& p) {
  loop::verify(p, {.register_constant_indices = true});
  CudaSource source = emit_cuda(p);
  if (nvrtc_available().ok()) {
    EXPECT_FALSE(compile_cubin(source.text, "sm_90a").empty());
  }
  source.text = source.text.substr(source.text.find("extern \"C\""));
  return source;
}

::testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << part << "' in\n" << text;
}

constexpr const char* kCopy = "for i in 128 threads { Y[t, ramp((i * 4), 1, 4)] = X[t, ramp((i * 4), 1, 4)] }";

TEST(EmitCuda, AThreadMovesWholeVectors) {
  const CudaSource source = emitted(program(kCopy));
  EXPECT_TRUE(holds(source.text, "= *(tw_vec<float, 4>*)&p0[((tile * 1024) + (v0 * 4))];"));
  EXPECT_TRUE(holds(source.text, "*(tw_vec<float, 4>*)&p1[((tile * 1024) + (v0 * 4))] = "));
  EXPECT_EQ(source.kernels[0].threads, 128);
  EXPECT_EQ(source.kernels[0].shared_bytes, 0);
}

TEST(EmitCuda, DimsOfOneElementAreBehindTheOnesThatMove) {
  const CudaSource source =
      emitted(program("for i in 128 threads { Y[t, ramp((i * 4), 1, 4), 0] = X[t, ramp((i * 4), 1, 4), 0] }",
                      "(X: f32[2, 1024, 1] param, Y: f32[2, 1024, 1] param written)"));
  EXPECT_TRUE(holds(source.text, "= *(tw_vec<float, 4>*)&p0["));
}

// A variable may hold a whole number of the data, of any size: where it decides an address, the arithmetic is its.
TEST(EmitCuda, IndicesThatAreDataKeepTheirWidth) {
  const std::string signature = "(X: f32[8] param, I: i64[2, 64] param, Y: f32[2, 64] param written)";
  const CudaSource vectors = emitted(
      program("for i in 32 threads { let v = (I[t, ramp((i * 2), 1, 2)] + broadcast(1, 2)) "
              "Y[t, ramp((i * 2), 1, 2)] = X[min(max((v + broadcast(5, 2)), broadcast(0, 2)), broadcast(7, 2))] }",
              signature));
  EXPECT_TRUE(holds(vectors.text, "(long long)(7LL)"));
  const CudaSource scalars =
      emitted(program("for i in 64 threads { let v = (I[t, i] + 1) Y[t, i] = X[min(max((v + 5), 0), 7)] }", signature));
  EXPECT_TRUE(holds(scalars.text, "(long long)(7LL)"));
}

// A vector behind a condition, as padding is: loaded without a branch where nothing writes to the tensor.
TEST(EmitCuda, VectorsThatAreWantedAreLoadedWithoutABranch) {
  const CudaSource source =
      emitted(program("for i in 128 threads { Y[t, ramp((i * 4), 1, 4)] = "
                      "select((i < 5), X[t, ramp((i * 4), 1, 4)], broadcast(-2:f32, 4)) }"));
  EXPECT_TRUE(holds(source.text,
                    "= tw_load_if((v0 < 5), *(tw_vec<float, 4>*)&p0[((tile * 1024) + (v0 * 4))], "
                    "__int_as_float(0xc0000000));"));
  const CudaSource written =
      emitted(program("for i in 128 threads { Y[t, ramp((i * 4), 1, 4)] = "
                      "select((i < 5), Y[t, ramp((i * 4), 1, 4)], broadcast(-2:f32, 4)) }"));
  EXPECT_EQ(written.text.find("tw_load_if"), std::string::npos) << written.text;
}

// A choice that is the same for all threads, as that of a step which is left out: both sides are loaded where they
// exist.
TEST(EmitCuda, WhatAllThreadsChooseAlikeIsLoadedWhole) {
  const std::string signature = "(C: bool[1] param, X: f32[2, 1024] param, Y: f32[2, 1024] param written)";
  const auto chosen = [&](const std::string& condition) {
    return emitted(
               program("for i in 256 threads { Y[t, ramp((i * 4), 1, 4)] = select(" + condition +
                           ", (Y[t, ramp((i * 4), 1, 4)] + X[t, ramp((i * 4), 1, 4)]), Y[t, ramp((i * 4), 1, 4)]) }",
                       signature))
        .text;
  };
  for (const std::string tensor : {"p1", "p2"}) {
    const std::string loaded = "= *(tw_vec<float, 4>*)&" + tensor + "[((tile * 1024) + (v0 * 4))];";
    EXPECT_TRUE(holds(chosen("broadcast(C[0], 4)"), loaded));
    EXPECT_EQ(chosen("(i < 5)").find(loaded), std::string::npos);
  }
}

// A vector whose first element may lie anywhere is moved element by element.
TEST(EmitCuda, UnalignedVectorsAreElements) {
  const CudaSource source =
      emitted(program("for i in 127 threads { Y[t, ramp(((i * 4) + 1), 1, 4)] = X[t, ramp(((i * 4) + 1), 1, 4)] }"));
  EXPECT_EQ(source.text.find("tw_vec<float, 4>*)"), std::string::npos) << source.text;
  EXPECT_TRUE(holds(source.text, "if (threadIdx.x < 127)"));
  EXPECT_EQ(source.kernels[0].threads, 128) << "whole warps";
}

TEST(EmitCuda, WhatAThreadOwnsIsInItsRegisters) {
  const CudaSource source =
      emitted(program("alloc r: f32[64, 2] register { for i in 64 threads { r[i, 1] = X[t, i] } "
                      "for j in 64 threads { Y[t, j] = r[j, 1] } }"));
  EXPECT_TRUE(holds(source.text, "float v0[2];"));
  EXPECT_TRUE(holds(source.text, "v0[1] = p0[((tile * 1024) + v1)];"));
  EXPECT_TRUE(holds(source.text, "= v0[1];"));
}

TEST(EmitCuda, ThreadsOfOneTileShareStackBuffers) {
  const CudaSource source =
      emitted(program("alloc s: f32[64] stack { for i in 64 threads { s[i] = X[t, i] } "
                      "for j in 64 threads { Y[t, j] = s[(63 - j)] } }"));
  EXPECT_EQ(source.kernels[0].shared_bytes, 256);
  EXPECT_TRUE(holds(source.text, "__syncthreads();"));
  EXPECT_EQ(source.text.find("__syncthreads();"), source.text.rfind("__syncthreads();")) << "none after the last loop";
}

TEST(EmitCuda, KernelsAreNamedAfterWhatTheyCompute) {
  const loop::Program copy = program("for i in 64 threads { Y[t, i] = X[t, i] }");
  EXPECT_EQ(emit_cuda(copy, "layer1.0/Conv_12+Relu:\xc3\xa4").kernels[0].name, "tw_layer1_0_Conv_12_Relu___");
  loop::Program two = copy;
  two.kernels.push_back(copy.kernels[0]);
  const CudaSource source = emit_cuda(two, std::string(200, 'x'));
  EXPECT_EQ(source.kernels[0].name, "tw_" + std::string(60, 'x'));
  EXPECT_EQ(source.kernels[1].name, source.kernels[0].name + "_1");
  EXPECT_TRUE(holds(source.text, source.kernels[1].name + "("));
}

// An element as a product takes it: f32 is rounded to tf32.
std::string multiplied(const std::string& element, const std::string& type) {
  const bool f32 = type == "f32";
  return fmt::format("{}{}{}", f32 ? "bitcast<f32>((bitcast<i32>(" : "cast<f32>(", element,
                     f32 ? ") & -8192:i32))" : ")");
}

// Rows of A by rows of B: `steps` of a step.
loop::Program matrix_step(const std::string& b_element, int steps = 16, const std::string& type = "f16") {
  const std::string each = "for {0} in 8 threads {{ for {1} in 4 threads {{ {2} }} }} ";
  const std::string sum = fmt::format(
      "for h in 2 matrix {{ for c in 2 matrix {{ for s in {} matrix {{ d[r, h, p, c] = "
      "fma({}, {}, d[r, h, p, c]) }} }} }}",
      steps, multiplied("A[((h * 8) + r), s]", type), multiplied(b_element, type));
  std::string zeros, stores;
  for (int i = 0; i < 4; ++i) {
    zeros += fmt::format("d[r0, {}, p0, {}] = 0:f32 ", i / 2, i % 2);
    stores += fmt::format("Y[({} + r1), ((p1 * 2) + {})] = d[r1, {}, p1, {}] ", i / 2 * 8, i % 2, i / 2, i % 2);
  }
  return program("alloc d: f32[8, 2, 4, 2] register { " + fmt::format(fmt::runtime(each), "r0", "p0", zeros) +
                     fmt::format(fmt::runtime(each), "r", "p", sum) +
                     fmt::format(fmt::runtime(each), "r1", "p1", stores) + "}",
                 fmt::format("(A: {0}[16, 16] param, B: {0}[16, 16] param, Y: f32[16, 8] param written)", type));
}

TEST(EmitCuda, AMatrixStepIsOneInstruction) {
  const CudaSource source = emitted(matrix_step("B[((p * 2) + c), s]"));
  EXPECT_TRUE(holds(source.text,
                    "tw_mma_f16(v0[0], v0[1], v0[2], v0[3], "
                    "tw_bits<unsigned>(*(tw_vec<unsigned short, 2>*)&p0["));
  // B's columns are told by what tells A's rows.
  EXPECT_TRUE(holds(source.text, "tw_bits<unsigned>(*(tw_vec<unsigned short, 2>*)&p1[((v3 * 16) + (v4 * 2))])"))
      << source.text;
}

// Two instructions, of which each lane has four neighbouring steps in one access.
TEST(EmitCuda, AMatrixStepOfTf32) {
  EXPECT_TRUE(holds(emitted(matrix_step("B[((p * 2) + c), s]", 16, "f32")).text,
                    "tw_mma_tf32(v0[0], v0[1], v0[2], v0[3], *(tw_vec<float, 4>*)&p0[((v3 * 16) + (v4 * 4))], "
                    "*(tw_vec<float, 4>*)&p0[((v3 * 16) + (v4 * 4)) + 128], "
                    "*(tw_vec<float, 4>*)&p1[((v3 * 16) + (v4 * 4))]);"))
      << emitted(matrix_step("B[((p * 2) + c), s]", 16, "f32")).text;
  EXPECT_TRUE(holds(emitted(matrix_step("B[s, ((p * 2) + c)]", 16, "f32")).text, ", tw_vec<float, 4>{{p1["));
}

TEST(EmitCuda, PairsAcrossRowsAreTwoElements) {
  EXPECT_TRUE(holds(emitted(matrix_step("B[s, ((p * 2) + c)]")).text, "tw_pair(p1["));
}

TEST(EmitCuda, OtherMatrixStepsAreRefused) {
  EXPECT_THROW(emit_cuda(matrix_step("B[((p * 2) + c), s]", 8)), InternalError);
  EXPECT_THROW(emit_cuda(matrix_step("B[((r * 2) + c), s]")), InternalError);
}

// What four lanes have of a row, 2 columns each and 8 further on again: 16 bytes for each of them.
TEST(EmitCuda, LanesThatShareARowStoreWholeVectors) {
  const auto text = [](int64_t columns, int64_t apart, const std::string& type = "f16") {
    std::string stores;
    for (int64_t i = 0; i < 4; ++i)
      stores += fmt::format("Y[r, ramp(((p * 2) + {0}), 1, 2)] = cast<{1}>(X[r, ramp(((p * 2) + {0}), 1, 2)]) ",
                            i * apart, type);
    return emitted(program("for r in 8 threads { for p in 4 threads { " + stores + "} }",
                           fmt::format("(X: f32[8, {0}] param, Y: {1}[8, {0}] param written)", columns, type)))
        .text;
  };
  const auto under = [](const std::string& condition) {
    std::string stores;
    for (int64_t i = 0; i < 4; ++i)
      stores += fmt::format("Y[r, ramp(((p * 2) + {0}), 1, 2)] = cast<f16>(X[r, ramp(((p * 2) + {0}), 1, 2)]) ", i * 8);
    return emitted(program("for r in 8 threads { for p in 4 threads { if (" + condition + ") { " + stores + "} } }",
                           "(X: f32[8, 32] param, Y: f16[8, 32] param written)"))
        .text;
  };
  EXPECT_TRUE(holds(under("(r < 5)"), "tw_exchange(")) << "all lanes of a row";
  EXPECT_EQ(under("(p < 3)").find("tw_exchange("), std::string::npos) << "some lanes of a row";
  const std::string whole = text(32, 8);
  EXPECT_TRUE(holds(whole, "tw_exchange("));
  EXPECT_TRUE(holds(whole, "*(tw_vec<unsigned, 4>*)(&p1["));
  for (const std::string& apart : {text(36, 8), text(32, 4), text(32, 8, "f32")})
    EXPECT_EQ(apart.find("tw_exchange("), std::string::npos) << apart;
}

// Of two outputs whose values have names, each is stored so: the values of all four come before.
TEST(EmitCuda, LanesThatShareARowStoreWholeVectorsOfEachOutput) {
  const auto text = [](const std::string& second) {
    std::string stores;
    for (int64_t i = 0; i < 4; ++i) {
      const std::string at = fmt::format("[r, ramp(((p * 2) + {}), 1, 2)]", i * 8);
      stores += fmt::format("let a = cast<f16>(X{0}) {{ let b = cast<f16>({1}) {{ Y{0} = a Z{0} = (a + b) }} }} ", at,
                            fmt::format(fmt::runtime(second), at));
    }
    return emitted(program("for r in 8 threads { for p in 4 threads { " + stores + "} }",
                           "(X: f32[8, 32] param, Y: f16[8, 32] param written, Z: f16[8, 32] param written)"))
        .text;
  };
  const std::string both = text("(X{0} * X{0})");
  const size_t first = both.find("tw_exchange("), next = both.find("tw_exchange(", first + 1);
  ASSERT_NE(next, std::string::npos) << both;
  EXPECT_LT(both.find("&p1["), both.find("&p2["));
  EXPECT_EQ(text("cast<f32>(Y{0})").find("tw_exchange("), std::string::npos) << "values of what is stored here";
}

// A sum at computed indices: the lanes of a warp look at an index each, and all follow what one of them finds.
TEST(EmitCuda, LanesSearchForWhatIsTheirs) {
  const auto text = [](const std::string& index, int64_t turns = 96, int64_t threads = 64) {
    return emitted(
               program(fmt::format("for i in {} threads {{ for j in {} {{ let v = ({} - (t * 8)) {{ if ((0 <= v) "
                                   "&& (v < 8)) {{ Y[(v + (t * 8)), i] = (Y[(v + (t * 8)), i] + X[j, i]) }} }} }} }}",
                                   threads, turns, index),
                       "(I: i64[4096] param, X: f32[96, 64] param, Y: f32[16, 64] param written)"))
        .text;
  };
  const std::string found = text("I[j]");
  EXPECT_TRUE(holds(found, "__ballot_sync(~0u, "));
  EXPECT_TRUE(holds(found, "__ffs(h) - 1;"));
  for (const std::string& other : {text("I[(j + (i * 2))]"), text("j"), text("I[j]", 40), text("I[j]", 96, 48)})
    EXPECT_EQ(other.find("__ballot_sync"), std::string::npos) << other;
}

// 64 rows by 16 columns by a warp group, both operands in shared memory; `line` elements apart.
loop::Program group_step(int line, const std::string& a_place, const std::string& type = "f16", int start = 0) {
  const std::string lanes = "for w{0} in 4 threads {{ for r{0} in 8 threads {{ for p{0} in 4 threads {{ {1} }} }} }} ";
  std::string zeros, stores;
  for (int i = 0; i < 8; ++i) {
    zeros += fmt::format("d[w0, {}, r0, {}, p0, {}] = {}:f32 ", i / 4, i / 2 % 2, i % 2, start);
    stores += fmt::format("Y[((w2 * 16) + (r2 + {})), ((p2 * 2) + {})] = d[w2, {}, r2, {}, p2, {}] ", i / 4 * 8,
                          i / 2 % 2 * 8 + i % 2, i / 4, i / 2 % 2, i % 2);
  }
  const std::string sum = fmt::format(
      "for h in 2 matrix {{ for e in 2 matrix {{ for c in 2 matrix {{ for s in 16 matrix {{ d[w1, h, r1, e, p1, c] = "
      "fma({}, {}, d[w1, h, r1, e, p1, c]) }} }} }} }}",
      multiplied(fmt::format("a[{}]", a_place), type), multiplied("b[((e * 8) + ((p1 * 2) + c)), s]", type));
  return program(
      "alloc d: f32[4, 2, 8, 2, 4, 2] register { " + fmt::format(fmt::runtime(lanes), 0, zeros) +
          fmt::format("alloc a: {1}[64, {0}] stack {{ alloc b: {1}[16, {0}] stack {{ ", line, type) +
          fmt::format(
              "for i in 128 threads {{ a[floormod(i, 64), ramp((floordiv(i, 64) * 8), 1, 8)] = A[floormod(i, 64), "
              "ramp((floordiv(i, 64) * 8), 1, 8)] }} for j in 32 threads {{ b[floormod(j, 16), ramp((floordiv(j, 16) * "
              "8), 1, 8)] = "
              "B[floormod(j, 16), ramp((floordiv(j, 16) * 8), 1, 8)] }} ") +
          fmt::format(fmt::runtime(lanes), 1, sum) + "} } " + fmt::format(fmt::runtime(lanes), 2, stores) + "}",
      fmt::format("(A: {0}[64, 16] param, B: {0}[16, 16] param, Y: f32[64, 16] param written)", type));
}

constexpr const char* kGroupPlace = "((w1 * 16) + ((h * 8) + r1)), s";

TEST(EmitCuda, AWarpGroupMultipliesWhatLiesInSharedMemory) {
  const CudaSource source = emitted(group_step(64, kGroupPlace));
  EXPECT_TRUE(holds(source.text, "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}"));
  EXPECT_TRUE(holds(source.text, "[tw_swizzle<2>("));
  EXPECT_TRUE(holds(source.text, "tw_settled("));
  EXPECT_TRUE(holds(source.text, "tw_written_for_matrix();")) << "threads have stored the operands themselves";
  EXPECT_TRUE(holds(source.text, "tw_matrix_done<0>();"));
  EXPECT_TRUE(holds(source.text, "__align__(1024)"));
}

TEST(EmitCuda, AWarpGroupAddsToSumsThatHaveBegun) {
  const auto text = [](int start) { return emitted(group_step(64, kGroupPlace, "f16", start)).text; };
  EXPECT_TRUE(holds(text(0), "\"r\"(0));")) << "no zeros are stored: the instruction takes none";
  EXPECT_TRUE(holds(text(2), "\"r\"(1));")) << "what the sums begin with is added to";
}

// Rows as an instruction before has left them, by columns as they are in memory: a line for each step.
TEST(EmitCuda, AWarpGroupMultipliesWhatItsRegistersHold) {
  const std::string lanes = "for w{0} in 4 threads {{ for r{0} in 8 threads {{ for p{0} in 4 threads {{ {1} }} }} }} ";
  std::string rows, stores;
  for (int i = 0; i < 8; ++i) {
    const int half = i / 4, step = i / 2 % 2, one = i % 2;
    rows += fmt::format("a[w0, {0}, r0, {1}, p0, {2}] = A[((w0 * 16) + (r0 + {3})), ((p0 * 2) + {4})] ", half, step,
                        one, half * 8, step * 8 + one);
  }
  for (int i = 0; i < 64; ++i) {
    const int half = i / 32, eighth = i / 2 % 16, one = i % 2;
    stores += fmt::format("Y[((w2 * 16) + (r2 + {})), ((p2 * 2) + {})] = d[w2, {}, r2, {}, {}, p2, {}] ", half * 8,
                          eighth * 8 + one, half, eighth / 8, eighth % 8, one);
  }
  const auto text = [&](const std::string& column) {
    const std::string sum = fmt::format(
        "for h in 2 matrix {{ for n in 2 matrix {{ for e in 8 matrix {{ for c in 2 matrix {{ for s in 16 matrix {{ "
        "d[w1, h, r1, n, e, p1, c] = fma({}, {}, d[w1, h, r1, n, e, p1, c]) }} }} }} }} }}",
        multiplied("a[w1, h, r1, floordiv(s, 8), floordiv(floormod(s, 8), 2), floormod(s, 2)]", "f16"),
        multiplied(fmt::format("b[n, s, ({} + ((p1 * 2) + c))]", column), "f16"));
    return emitted(program(
        "alloc a: f16[4, 2, 8, 2, 4, 2] register { alloc d: f32[4, 2, 8, 2, 8, 4, 2] register { " +
            fmt::format(fmt::runtime(lanes), 0, rows) +
            "alloc b: f16[2, 16, 64] stack { for i in 128 threads { b[floordiv(i, 64), floordiv(floormod(i, 64), 4), "
            "ramp((floormod(i, 4) * 16), 1, 16)] = B[floordiv(floormod(i, 64), 4), ramp(((floordiv(i, 64) * 64) + "
            "(floormod(i, 4) * 16)), 1, 16)] } " +
            fmt::format(fmt::runtime(lanes), 1, sum) + "} " + fmt::format(fmt::runtime(lanes), 2, stores) + "} }",
        "(A: f16[64, 16] param, B: f16[16, 128] param, Y: f32[64, 128] param written)"));
  };
  const CudaSource source = text("(e * 8)");
  EXPECT_TRUE(holds(source.text, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16")) << source.text;
  EXPECT_TRUE(holds(source.text, "{%64,%65,%66,%67}, %68, on, 1, 1, 1;")) << "four registers; lines are steps";
  EXPECT_TRUE(holds(source.text, "\"l\"(tw_matrix<128>(")) << "16 lines of 128 bytes to the next 64 columns";
  EXPECT_TRUE(holds(source.text, "\"r\"(0));")) << "nothing to add to";
  EXPECT_THROW(text("((7 - e) * 8)"), InternalError) << "columns in another order";
}

// A line of rows for each step, as rows lie beside each other in memory.
TEST(EmitCuda, AWarpGroupMultipliesRowsBesideEachOther) {
  const CudaSource source = emitted(group_step(64, "s, ((w1 * 16) + ((h * 8) + r1))"));
  EXPECT_TRUE(holds(source.text, "%8, %9, on, 1, 1, 1, 0;")) << source.text;
  EXPECT_TRUE(holds(source.text, "\"l\"(tw_matrix<512>(")) << "64 lines of 128 bytes to the next 64 rows";
  EXPECT_THROW(emitted(group_step(64, "s, ((w1 * 16) + ((r1 * 2) + h))")), InternalError) << "rows in another order";
}

// Two instructions of 8 steps, whose 16-byte parts hold 4 elements.
TEST(EmitCuda, AWarpGroupMultipliesTf32) {
  const CudaSource source = emitted(group_step(32, kGroupPlace, "f32"));
  EXPECT_TRUE(holds(source.text,
                    "wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, on, 1, 1;"))
      << source.text;
  EXPECT_TRUE(holds(source.text, ", 0, 0)), \"l\"(")) << "the first 8 steps";
  EXPECT_TRUE(holds(source.text, ", 0, 8)), \"l\"(")) << "the last 8 steps";
  EXPECT_TRUE(holds(source.text, "[tw_swizzle<4>("));
  EXPECT_THROW(emit_cuda(group_step(64, kGroupPlace, "f32")), InternalError) << "lines of 256 bytes";
}

// Eight lines further on, their parts lie in the same order.
TEST(EmitCuda, WhatDoesNotMovePartsOfLinesStandsApart) {
  CudaNames names;
  names.narrow = true;
  names.buffers["a"] = {.name = "a", .shape = {128, 64}, .of_thread = {}, .swizzled = 2};
  for (const char* variable : {"w", "i"}) {
    names.variables[variable] = variable;
    names.ranges.bind(variable, 0, 2);
  }
  const Expr w = var("w"), i = var("i");
  const auto offset = [&](const Expr& line, int64_t element) {
    const CudaOffset at = cuda_offset("a", {line, int_imm(element)}, names);
    return fmt::format("{}, {}", at.varying, at.constant);
  };
  EXPECT_EQ(offset(w * 64, 16), "(w * 4096), 16");
  EXPECT_EQ(offset(i + 8, 0), "tw_swizzle<2>((i * 64)), 512");
  EXPECT_EQ(offset(w * 64 + i + 11, 8), "tw_swizzle<2>(((i * 64) + 200)) + (w * 4096), 512");
  EXPECT_EQ(offset(int_imm(11), 8), fmt::format(", {}", 512 + (200 ^ 24)));
  EXPECT_EQ(cuda_unswizzled_offset("a", {int_imm(11), int_imm(8)}, names).constant, 11 * 64 + 8);
  names.buffers["a"].shape = {128, 32};
  names.buffers["a"].swizzled = 4;
  EXPECT_EQ(offset(w * 64, 8), "(w * 2048), 8");
  EXPECT_EQ(offset(i + 8, 0), "tw_swizzle<4>((i * 32)), 256");
  EXPECT_EQ(offset(int_imm(11), 4), fmt::format(", {}", 256 + (100 ^ 12)));
}

// Matrix instructions put parts in order by their address: they may begin with any line, as those of later filter
// positions do.
TEST(EmitCuda, AWarpGroupMayBeginWithAnyLine) {
  const CudaSource source = emitted(group_step(64, "(((w1 * 16) + ((h * 8) + r1)) + 3), s"));
  EXPECT_TRUE(holds(source.text, ", 0, 192))")) << source.text;
}

TEST(EmitCuda, OtherStepsOfWarpGroupsAreRefused) {
  EXPECT_THROW(emit_cuda(group_step(32, kGroupPlace)), InternalError) << "lines of 64 bytes";
  EXPECT_THROW(emit_cuda(group_step(64, "((w1 * 16) + ((r1 * 2) + h)), s")), InternalError) << "rows in another order";
}

// Sums of rows that threads fetch in groups of 4 elements, or one by one from another order, three rows at once.
loop::Program pipelined(const std::string& element, int turns = 5, int stages = 3) {
  return program(
      "alloc sum: f32[128, 4] register { for a in 128 threads { sum[a, ramp(0, 1, 4)] = broadcast(0:f32, 4) } " +
          fmt::format("for k in {} pipelined({}) {{ alloc s: f32[512] stack {{ ", turns, stages) +
          "for i in 128 threads { s[ramp((i * 4), 1, 4)] = " + element +
          " } "
          "for j in 128 threads { sum[j, ramp(0, 1, 4)] = (sum[j, ramp(0, 1, 4)] + s[ramp((508 - (j * 4)), 1, 4)]) } } "
          "} "
          "for b in 128 threads { Y[t, ramp((b * 4), 1, 4)] = sum[b, ramp(0, 1, 4)] } }",
      "(X: f32[5, 1024] param, Y: f32[2, 512] param written)");
}

TEST(EmitCuda, PipelinedLoopsCopyAhead) {
  const CudaSource source = emitted(pipelined("X[k, ramp((i * 4), 1, 4)]"));
  EXPECT_EQ(source.kernels[0].shared_bytes, 3 * 512 * 4);
  EXPECT_TRUE(holds(source.text, " = -2; "));
  EXPECT_TRUE(holds(source.text, "tw_copies_done<1>();"));
  EXPECT_TRUE(holds(source.text, "tw_copy_async<16>(v5, (v6 * 4), 0, &*(tw_vec<float, 4>*)&p0["));
  const CudaSource guarded = emitted(pipelined("select((k < 4), X[k, ramp((i * 4), 1, 4)], broadcast(0:f32, 4))"));
  EXPECT_TRUE(holds(guarded.text, " < 4))"));
  EXPECT_TRUE(holds(guarded.text, "tw_copy_async<16>("));
  const CudaSource once = emitted(pipelined("X[k, ramp((i * 4), 1, 4)]", 1));
  EXPECT_EQ(once.kernels[0].shared_bytes, 512 * 4) << "one turn has one copy of its buffers";
  EXPECT_TRUE(holds(once.text, "tw_copy_async<16>("));
  const CudaSource zeros = emitted(pipelined("broadcast(0:f32, 4)"));
  EXPECT_TRUE(holds(zeros.text, "&*p0, false);"));
}

// What is computed on the way is stored by the threads themselves.
TEST(EmitCuda, PipelinedLoopsStoreWhatIsNoCopy) {
  const CudaSource source = emitted(pipelined("(X[k, ramp((i * 4), 1, 4)] + X[k, ramp((i * 4), 1, 4)])"));
  EXPECT_EQ(source.text.find("tw_copy_async"), std::string::npos) << source.text;
}

// With one copy of the buffers threads wait for what they have just begun, and before it is filled again.
TEST(EmitCuda, PipelinedLoopsOfOneStageWaitForTheirCopies) {
  const CudaSource source = emitted(pipelined("X[k, ramp((i * 4), 1, 4)]", 5, 1));
  const auto wait = source.text.find("tw_copies_done<0>();");
  ASSERT_NE(wait, std::string::npos) << source.text;
  EXPECT_LT(source.text.find("tw_copies_begun();"), wait) << source.text;
  EXPECT_EQ(source.text.find("tw_copies_done", wait + 1), std::string::npos);
  EXPECT_NE(source.text.find("__syncthreads();", source.text.find("__syncthreads();", wait) + 1), std::string::npos);
}

TEST(EmitCuda, APipelinedLoopFillsFromWhatItDoesNotWrite) {
  EXPECT_THROW(loop::verify(pipelined("sum[i, ramp(0, 1, 4)]")), InternalError);
}

// 128 rows by 16 columns of two warp groups, 256 steps in four blocks that TMA brings; a pair of tiles has the same
// columns.
loop::Program filled_in_bulk(const std::string& row, const std::string& clusters) {
  const auto lanes = [](int n, const std::string& body) {
    return fmt::format(
        "for g{0} in 2 threads {{ for w{0} in 4 threads {{ for r{0} in 8 threads {{ for p{0} in 4 threads {{ {1} }} }} "
        "}} }} ",
        n, body);
  };
  std::string zeros, stores;
  for (int i = 0; i < 8; ++i) {
    const int half = i / 2 % 2, eighth = i / 4, column = i % 2;
    zeros += fmt::format("d[g0, w0, {}, r0, {}, p0, {}] = 0:f32 ", half, eighth, column);
    stores += fmt::format(
        "Y[((((t * 128) + (g2 * 64)) + (w2 * 16)) + (r2 + {})), ((p2 * 2) + {})] = d[g2, w2, {}, r2, {}, p2, {}] ",
        half * 8, eighth * 8 + column, half, eighth, column);
  }
  const std::string sum =
      "for q in 4 { for h in 2 matrix { for e in 2 matrix { for c in 2 matrix { for s in 16 matrix { "
      "d[g1, w1, h, r1, e, p1, c] = fma(cast<f32>(a[((g1 * 64) + ((w1 * 16) + ((h * 8) + r1))), ((q * 16) + s)]), "
      "cast<f32>(b[((e * 8) + ((p1 * 2) + c)), ((q * 16) + s)]), d[g1, w1, h, r1, e, p1, c]) } } } } }";
  const std::string body = "alloc d: f32[2, 4, 2, 8, 2, 4, 2] register { " + lanes(0, zeros) +
                           "for k in 4 pipelined(3) { alloc a: f16[128, 64] stack { alloc b: f16[16, 64] stack { "
                           "for i in 128 bulk { for j in 64 bulk { a[i, j] = " +
                           row +
                           " } } "
                           "for m in 16 bulk { for n in 64 bulk { b[m, n] = B[m, ((k * 64) + n)] } } " +
                           lanes(1, sum) + "} } } " + lanes(2, stores) + "}";
  return loop::parse_program(
      "program p\n\nkernel k(A: f16[250, 256] param, B: f16[16, 256] param, Y: f32[256, 16] param written) tiles t in "
      "2" +
      clusters + " {\n" + body + "\n}\n");
}

constexpr const char* kRow = "select((((t * 128) + i) < 250), A[((t * 128) + i), ((k * 64) + j)], 0:f16)";

TEST(EmitCuda, TmaFillsBuffersAhead) {
  const CudaSource source = emitted(filled_in_bulk(kRow, ""));
  const CudaKernel& kernel = source.kernels[0];
  EXPECT_EQ(kernel.threads, 256 + 32) << "one more warp asks for copies";
  ASSERT_EQ(kernel.maps.size(), 2U);
  EXPECT_EQ(kernel.maps[0].param, 0U);
  EXPECT_EQ(kernel.maps[0].box, (Shape{128, 64}));
  EXPECT_EQ(kernel.maps[1].box, (Shape{16, 64}));
  EXPECT_TRUE(holds(source.text, "tw_barrier_expect(v")) << "of both copies";
  EXPECT_TRUE(holds(source.text, ", 18432);"));
  EXPECT_TRUE(holds(source.text, "tw_fetch<1>(&m0, "));
  EXPECT_TRUE(holds(source.text, "const __grid_constant__ tw_map m1"));
  EXPECT_EQ(kernel.shared_bytes, 3 * (128 + 16) * 64 * 2 + 2 * 3 * 8);
}

TEST(EmitCuda, TilesOfAClusterFetchForEachOther) {
  const CudaSource source = emitted(filled_in_bulk(kRow, " clusters 2"));
  ASSERT_EQ(source.kernels[0].maps.size(), 2U);
  EXPECT_EQ(source.kernels[0].maps[0].box, (Shape{128, 64})) << "each has rows of its own";
  EXPECT_EQ(source.kernels[0].maps[1].box, (Shape{8, 64})) << "each fetches half of the columns";
  EXPECT_TRUE(holds(source.text, "__cluster_dims__(2, 1, 1)"));
  EXPECT_TRUE(holds(source.text, "tw_fetch<2>(&m1, "));
  EXPECT_TRUE(holds(source.text, "tw_barriers<3>("));
  EXPECT_TRUE(holds(source.text, "tw_cluster_wait();"));
}

TEST(EmitCuda, OtherBulkCopiesAreRefused) {
  EXPECT_THROW(emit_cuda(filled_in_bulk("A[((t * 128) + i), ((k * 64) + (j * 2))]", "")), InternalError) << "gaps";
  EXPECT_THROW(emit_cuda(filled_in_bulk("A[(k + j), ((t * 128) + i)]", "")), InternalError) << "across lines";
  EXPECT_THROW(
      emit_cuda(filled_in_bulk("select((10 <= ((t * 128) + i)), A[((t * 128) + i), ((k * 64) + j)], 0:f16)", "")),
      InternalError)
      << "zeros inside of the tensor";
  EXPECT_NO_THROW(
      emit_cuda(filled_in_bulk("select((((t * 128) + i) < 200), A[((t * 128) + i), ((k * 64) + j)], 0:f16)", "")))
      << "windows that end before the tensor does";
  EXPECT_NO_THROW(emit_cuda(
      filled_in_bulk("select((((t * 64) + floordiv(i, 2)) < 125), A[((t * 128) + i), ((k * 64) + j)], 0:f16)", "")))
      << "whole blocks of rows";
  EXPECT_NO_THROW(emit_cuda(filled_in_bulk("A[i, (((t * 128) + (k * 32)) + j)]", "")))
      << "steps of a part of the lines";
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Those who compute and the one who fetches walk over the same tiles, with one ring; no one waits between tiles.
TEST(EmitCuda, BlocksWalkOverTiles) {
  const std::string text = emitted(filled_in_bulk(kRow, " units 1 together 1")).text;
  EXPECT_TRUE(holds(text, "__launch_bounds__(288)"));
  EXPECT_EQ(count(text, "for (int tile = blockIdx.x; tile < 2; tile += gridDim.x) {"), 2U) << text;
  EXPECT_EQ(count(text, "__syncthreads();"), 1U) << "when the barriers are set up\n" << text;
  EXPECT_EQ(text.find("tw_meet"), std::string::npos);
  EXPECT_LT(text.find("int v0 = 0, v3 = 0;"), text.find("for (int tile")) << "slots go on over tiles";
  EXPECT_EQ(count(text, "tw_barrier_arrive<1>("), 2U) << "the last copy of a tile is empty before the next one";
}

// Both blocks of a pair do as many tiles, so that what is alike in neighbours is fetched once for both at each step.
TEST(EmitCuda, PairsWalkInStep) {
  const std::string text = emitted(filled_in_bulk(kRow, " clusters 2 units 2 together 1")).text;
  EXPECT_TRUE(holds(text, "__cluster_dims__(2, 1, 1)"));
  EXPECT_EQ(count(text, "for (int tile = blockIdx.x; tile < 2; tile += gridDim.x) {"), 2U) << text;
  EXPECT_TRUE(holds(text, "tw_fetch<2>(&m1, "));
  EXPECT_EQ(count(text, "tw_barrier_arrive<2>("), 2U) << "a copy is empty when both have had it";
  EXPECT_EQ(text.rfind("tw_cluster_arrive(), tw_cluster_wait();") > text.rfind("for (int tile"), true)
      << "no block ends before the other";
}

// Consumers take turns: each goes on by the slots of the others' tiles, and begins when the one before has had its own.
TEST(EmitCuda, ConsumersOfABlockTakeTurns) {
  const std::string text = emitted(filled_in_bulk(kRow, " units 1 together 2")).text;
  EXPECT_TRUE(holds(text, "__launch_bounds__(544)"));
  EXPECT_TRUE(holds(text, "const int tw_thread = threadIdx.x % 256;"));
  EXPECT_TRUE(holds(text, "for (int tile = blockIdx.x + tw_team * gridDim.x; tile < 2; tile += 2 * gridDim.x) {"));
  EXPECT_TRUE(holds(text, "for (int tile = blockIdx.x; tile < 2; tile += gridDim.x) {")) << "all are fetched";
  EXPECT_TRUE(holds(text, "tw_barriers<3>(v1, v2, 2);")) << "a copy has the threads of one consumer";
  EXPECT_TRUE(holds(text, "if (tw_team == 1) tw_next<512>(1);"));
  size_t at = 0;
  for (const char* next :
       {"tw_skip<3>(v0, v3, tw_team * 4);", "tw_meet<512>(1 + tw_team);", "tw_barrier_wait(",
        "tw_next<512>(1 + (tw_team + 1) % 2);", "tw_matrix_done<0>();", "tw_skip<3>(v0, v3, 1 * 4);"}) {
    at = text.find(next, at);
    EXPECT_NE(at, std::string::npos) << next << " is not next in\n" << text;
  }
  EXPECT_THROW(emit_cuda(filled_in_bulk(kRow, " units 1 together 4")), InternalError) << "too many threads";
}

// `statements` behind those of the bulk kernel, whose blocks walk.
loop::Program beside_the_sums(const std::string& statements) {
  loop::Program both = filled_in_bulk(kRow, " units 1 together 1");
  const loop::Program other = loop::parse_program(
      "program p kernel k(A: f16[250, 256] param, B: f16[16, 256] param, Y: f32[256, 16] param written) tiles t in 2 "
      "{" +
      statements + "}");
  both.kernels[0].body.push_back(other.kernels[0].body[0]);
  return both;
}

const std::string kBackwards =
    "for v in 256 threads { Y[((t * 128) + floordiv(v, 2)), floormod(v, 2)] = n[(255 - v)] } ";

// Shared memory is used until the last thread of a tile has done with it.
TEST(EmitCuda, WalkingThreadsMeetBetweenTilesThatShareMemory) {
  loop::Program p = pipelined("X[k, ramp((i * 4), 1, 4)]");
  const size_t before = count(emitted(p).text, "__syncthreads();");
  p.kernels[0].units = 1;
  EXPECT_EQ(count(emitted(p).text, "__syncthreads();"), before + 1);
  const std::string beside =
      "alloc n: f32[256] stack { for u in 256 threads { n[u] = cast<f32>(A[t, u]) } " + kBackwards + "}";
  loop::Program both = beside_the_sums(beside);
  EXPECT_EQ(count(emitted(both).text, "tw_meet<256>(1);"), 3U)
      << "behind the sums, in front of n's use, of its next tile";
  both.kernels[0].together = 2;
  EXPECT_TRUE(holds(emitted(both).text, " + 1024 * tw_team);")) << "consumers have memory of their own";
}

TEST(EmitCuda, WhatNoTileChangesIsFilledOnce) {
  const std::string fill = "alloc n: f32[256] stack { for u in 256 threads { n[u] = cast<f32>(B[0, u]) } ";
  const std::string text = emitted(beside_the_sums(fill + kBackwards + "}")).text;
  const size_t first = text.find("= tw_f16_to_f32("), walk = text.find("for (int tile");
  EXPECT_LT(first, walk) << text;
  EXPECT_EQ(text.find("= tw_f16_to_f32(", walk), std::string::npos) << "once";
  EXPECT_LT(text.find("tw_meet<256>(1);"), walk) << "all have it then";
  loop::Program two = beside_the_sums(fill + kBackwards + "}");
  two.kernels[0].together = 2;
  EXPECT_TRUE(holds(emitted(two).text, "if (tw_team == 0) {")) << "one consumer fills for both";
  EXPECT_TRUE(holds(emitted(two).text, "tw_meet<512>(5);"));
  const std::string changed =
      emitted(beside_the_sums(fill + kBackwards + "for w in 256 threads { n[w] = 2:f32 } }")).text;
  EXPECT_GT(changed.find("= tw_f16_to_f32("), changed.find("for (int tile")) << "a tile changes it";
}

// Those who compute hold 160 words each, and may have more registers than the producer's warps need.
TEST(EmitCuda, ConsumersTakeRegistersOfTheProducer) {
  const auto holding = [](int words) {
    return beside_the_sums(
        fmt::format("alloc z: f32[256, {}] register {{ for u in 256 threads {{ z[u, 0] = 1:f32 }} "
                    "for v in 256 threads {{ Y[((t * 128) + floordiv(v, 2)), floormod(v, 2)] = "
                    "z[v, 0] }} }}",
                    words));
  };
  const CudaSource many = emitted(holding(160));
  EXPECT_EQ(many.kernels[0].threads, 384) << "a whole warp group gives registers back";
  EXPECT_TRUE(holds(many.text, "__launch_bounds__(384, 1)"));
  EXPECT_TRUE(holds(many.text, "tw_take_registers<232>();")) << "of 168 each, all but 40 of the producer's";
  EXPECT_TRUE(holds(many.text, "tw_give_registers<40>();"));
  loop::Program teams = holding(160);
  teams.kernels[0].together = 2;
  EXPECT_TRUE(holds(emitted(teams).text, "tw_take_registers<104>();")) << "of 96";
  teams.kernels[0].together = 3;
  EXPECT_EQ(emitted(teams).kernels[0].threads, 3 * 256 + 32) << "nothing is left to take";
  const CudaSource few = emitted(holding(8));
  EXPECT_EQ(few.kernels[0].threads, 288);
  EXPECT_EQ(few.text.find("tw_take_registers<232>"), std::string::npos);
}

// Another round of the loop finds slots as the last one left them; another loop has the same ring.
TEST(EmitCuda, TmaFillsForLoopsAlike) {
  loop::Program p = filled_in_bulk(kRow, "");
  loop::Rewriter again;
  again.stmt = [](const loop::Stmt& s) -> std::vector<loop::Stmt> {
    const bool pipelined = s->kind == loop::StmtKind::kFor && s->for_kind == loop::ForKind::kPipelined;
    if (!pipelined) return {s};
    return {loop::make_for("again", 2, loop::ForKind::kSerial, {s})};
  };
  p.kernels[0].body = loop::rewrite(p.kernels[0].body, again);
  const std::string text = emitted(p).text;
  EXPECT_EQ(count(text, "tw_barriers<3>("), 1U);
  EXPECT_EQ(count(text, " = 0, v3 = 0;"), 2U) << "of each role";
  loop::Program other = filled_in_bulk(kRow, "");
  const loop::Stmt sums = other.kernels[0].body[0];
  again.stmt = [](const loop::Stmt& s) -> std::vector<loop::Stmt> {
    const bool pipelined = s->kind == loop::StmtKind::kFor && s->for_kind == loop::ForKind::kPipelined;
    return pipelined ? std::vector{s, loop::make_for("l", 4, s->for_kind, s->body, 4)} : std::vector{s};
  };
  other.kernels[0].body = loop::rewrite({sums}, again);
  EXPECT_THROW(emit_cuda(other), InternalError) << "of other slots";
}

constexpr const char* kRowMaximum =
    "alloc m: f32[2] stack { for a in 2 threads { m[a] = -inf:f32 } for i in 2 threads { for j in 64 threads { "
    "for c in 4 { m[i] = max(m[i], X[i, ((c * 64) + j)]) } } } for k in 2 threads { Y[t, k] = m[k] } }";

TEST(EmitCuda, ThreadsCombineTheirTerms) {
  const CudaSource source = emitted(program(kRowMaximum));
  EXPECT_TRUE(holds(source.text, "tw_combine<64>("));
  EXPECT_TRUE(holds(source.text, "if (threadIdx.x % 64 == 0)"));
  EXPECT_EQ(source.kernels[0].shared_bytes, 16 + 256) << "m, and an element for each warp";
}

// In the order that every evaluator adds them in: halves of the vector.
TEST(EmitCuda, LanesAreCombinedByHalves) {
  const CudaSource source = emitted(program("for i in 64 threads { Y[t, i] = reduce_add(X[t, ramp((i * 4), 1, 4)]) }"));
  const size_t pairs = source.text.find("v2[l] = (v2[l] + v2[l + 2]);");
  EXPECT_NE(pairs, std::string::npos) << source.text;
  EXPECT_GT(source.text.find("v2[l] = (v2[l] + v2[l + 1]);"), pairs) << source.text;
  EXPECT_TRUE(holds(source.text, "p1[((tile * 1024) + v0)] = v2[0];"));
}

// Each step doubles the text of an expression that shares its operands.
TEST(EmitCuda, WhatIsSharedIsWrittenOnce) {
  loop::Program p = program("for i in 64 threads { Y[t, i] = X[t, i] }");
  loop::Rewriter twice;
  twice.expr = [](const Expr& e) {
    if (e.op() != Op::kLoad) return e;
    Expr sum = e;
    for (int step = 0; step < 100; ++step) sum = sum * sum + float_imm(step);
    return select(load("X", DataType::f32(), {Expr(0), Expr(0)}) < e, sum, e);
  };
  p.kernels[0].body = loop::rewrite(p.kernels[0].body, twice);
  EXPECT_LT(emitted(p).text.size(), 20'000u);
  loop::Program halves = program(
      "for i in 64 threads { Y[t, ramp((i * 4), 1, 4)] = cast<f16>((X[t, ramp((i * 4), 1, 4)] + broadcast(1:f32, 4))) "
      "}",
      "(X: f32[2, 1024] param, Y: f16[2, 1024] param written)");
  twice.expr = [](const Expr& e) {
    if (e.op() != Op::kCast) return e;
    Expr sum = e.arg(0);
    for (int step = 0; step < 100; ++step) sum = sum * sum + imm(sum.type(), step);
    return cast(DataType::f16(), select(e.arg(0) < sum, sum, e.arg(0)));
  };
  halves.kernels[0].body = loop::rewrite(halves.kernels[0].body, twice);
  EXPECT_LT(emitted(halves).text.size(), 40'000u);
}

// C++ adds narrow integers as int, and leaves it open what signed ones become beyond their range.
TEST(EmitCuda, IntegersWrap) {
  const CudaSource narrow = emitted(program("for i in 64 threads { Y[t, i] = cast<i32>((X[t, i] + X[t, i])) }",
                                            "(X: u8[2, 64] param, Y: i32[2, 64] param written)"));
  EXPECT_TRUE(
      holds(narrow.text, "(unsigned char)((unsigned)p0[((tile * 64) + v0)] + (unsigned)p0[((tile * 64) + v0)])"));
  const CudaSource wide = emitted(program("for i in 64 threads { Y[t, i] = (X[t, i] * X[t, i]) }",
                                          "(X: i64[2, 64] param, Y: i64[2, 64] param written)"));
  EXPECT_TRUE(holds(wide.text, "(long long)((unsigned long long)p0[((tile * 64) + v0)] * (unsigned long long)p0["));
}

TEST(EmitCuda, ApproximationsAreInstructions) {
  for (const std::string call :
       {"exp2_approx(X[t, i])", "reciprocal_approx(X[t, i])", "quotient_approx(X[t, i], X[t, 0])"}) {
    const CudaSource source = emitted(program("for i in 64 threads { Y[t, i] = " + call + " }"));
    EXPECT_TRUE(holds(source.text, "= tw_" + call.substr(0, call.find('(')) + "(p0[((tile * 1024) + v0)]"));
  }
}

// A bias and a ReLU of sums in f32: both in 16 bits, what else is rounded two at a time.
TEST(EmitCuda, VectorsOfHalvesArePairs) {
  for (const std::string type : {"f16", "bf16"}) {
    const std::string signature =
        "(X: f32[2, 1024] param, B: " + type + "[1024] param, Y: " + type + "[2, 1024] param written)";
    const std::string at = "ramp((i * 8), 1, 8)", wide = "cast<f32>(", narrow = "cast<" + type + ">(";
    const std::string sum = narrow + "(" + wide + narrow + "X[t, " + at + "])) + " + wide + "B[" + at + "])))";
    const std::string relu = narrow + "max(" + wide + sum + "), broadcast(0:f32, 8)))";
    const CudaSource source = emitted(program("for i in 128 threads { Y[t, " + at + "] = " + relu + " }", signature));
    for (const std::string& part :
         {"tw_round_" + type + "(v", "tw_add_" + type + "(tw_pair_at(v", std::string("l), 0u)")})
      EXPECT_TRUE(holds(source.text, part));
    EXPECT_EQ(source.text.find("tw_f32_to_"), std::string::npos) << source.text;
    const std::string wider = narrow + "(" + wide + "B[" + at + "]) + broadcast(1:f32, 8)))";
    EXPECT_TRUE(holds(emitted(program("for i in 128 threads { Y[t, " + at + "] = " + wider + " }", signature)).text,
                      "tw_round_" + type + "(v"));
  }
}

TEST(EmitCuda, HalvesAreConvertedByTheDevice) {
  const CudaSource source = emitted(program("for i in 64 threads { Y[t, i] = cast<f16>((cast<f32>(X[t, i]) + 1:f32)) }",
                                            "(X: f16[2, 1024] param, Y: f16[2, 1024] param written)"));
  EXPECT_TRUE(holds(source.text, "tw_f32_to_f16((tw_f16_to_f32(p0[((tile * 1024) + v0)]) + "));
}

std::string refusal(const std::string& body) {
  try {
    emit_cuda(program(body));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(EmitCuda, ThreadsMayNotDisturbEachOther) {
  EXPECT_TRUE(holds(refusal("for i in 64 threads { Y[t, 0] = X[t, i] }"), "all threads store to Y"));
  EXPECT_TRUE(holds(refusal("for i in 64 threads { if (i < 2) { Y[t, 0] = X[t, i] } }"), "all threads store to Y"));
  EXPECT_EQ(refusal("for i in 64 threads { if (i < 1) { Y[t, 0] = X[t, 0] } }"), "") << "one thread";
  EXPECT_TRUE(holds(refusal("for i in 48 threads { for j in 3 threads { Y[t, i] = (Y[t, i] + X[t, j]) } }"),
                    "3 threads combine"));
  EXPECT_TRUE(holds(refusal("alloc r: f32[64] register { for i in 64 threads { r[i] = X[t, i] } "
                            "for j in 64 threads { Y[t, j] = r[(63 - j)] } }"),
                    "thread 0 uses two elements of r"));
  EXPECT_TRUE(holds(refusal("alloc r: f32[64] register { for i in 64 threads { r[floordiv(i, 2)] = X[t, i] } }"),
                    "use one element of r"));
  EXPECT_TRUE(holds(refusal("for i in 2048 threads { Y[t, i] = X[t, i] }"), "2048 threads in a block"));
}

}  // namespace
}  // namespace tw::codegen
