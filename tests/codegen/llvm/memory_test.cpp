// Addresses, vector accesses of every form, masks, and loads that are to be protected.
#include <fmt/format.h>

#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

using loop::Memory;

const DataType kTypes[] = {DataType::f32(),     DataType::f64(),           DataType::i64(),           DataType::f16(),
                           DataType::boolean(), DataType(ScalarType::kI8), DataType(ScalarType::kU16)};
constexpr int kLanes[] = {4, 7, 8, 16};

// Runs the text with every element type and lane count.
void check_all(const char* text, const Memory& inputs = {}) {
  for (const DataType type : kTypes) {
    for (const int lanes : kLanes) check_text(text, lanes, type, inputs);
  }
}

// The lanes of I are a permutation of 0..extent-1, in i64 or i32.
loop::HostBuffer permutation(DataType type, int64_t extent, int64_t step) {
  loop::HostBuffer buffer = small_ints(type, {extent}, 1);
  for (int64_t i = 0; i < extent; ++i) buffer.ints[static_cast<size_t>(i)] = (i * step + 5) % extent;
  return buffer;
}

TEST(Memory, RampsOfEveryStride) {
  check_all(R"(program strides
    kernel k(X: $T[200] param, Y: $T[200] param written, Z: $T[200] param written) {
      for i in 3 {
        Y[ramp(i * 17 + 1, 1, $L)] = X[ramp(i * 3, 3, $L)]
        Y[ramp(i * 17 + 70, -1, $L)] = X[ramp(i + 100, -1, $L)]
        Z[ramp(i + 4, 3, $L)] = X[ramp(2 * i, 1, $L)]
        Z[ramp(i + 140, -3, $L)] = X[ramp(60 + i, -2, $L)]
      }
    })");
}

// Of windows of stride 2: whole vectors, the last element of the buffer, and edges where lanes are known not to be
// read.
TEST(Memory, EverySecondElementWithKnownLanes) {
  for (const int lanes : {2, 3, 5, 7, 8, 16}) {
    const std::string text = fmt::format(R"(program windows
    kernel k(X: f32[3, {0}] param, Y: f32[3, 4, {1}] param written) {{
      for i in 3 {{
        Y[i, 0, ramp(0, 1, {1})] = X[i, ramp(0, 2, {1})]
        Y[i, 1, ramp(0, 1, {1})] = X[i, ramp(1, 2, {1})]
        Y[i, 2, ramp(0, 1, {1})] = select(broadcast(1, {1}) <= ramp(0, 1, {1}), X[i, ramp(-1, 2, {1})], broadcast(7:f32, {1}))
        Y[i, 3, ramp(0, 1, {1})] = select(ramp(0, 1, {1}) < broadcast({2}, {1}), X[i, ramp(2, 2, {1})], broadcast(7:f32, {1}))
      }}
    }})",
                                         2 * lanes, lanes, lanes - 1);
    SCOPED_TRACE(text);
    check_text(text, lanes, DataType::f32(), {{"X", small_ints(DataType::f32(), {3, 2 * lanes}, 1)}});
  }
}

TEST(Memory, VectorsAlongAnyDimension) {
  check_all(R"(program dims
    kernel k(X: $T[17, 5, 19] param, Y: $T[5, 19, 18] param written) tiles t in 5 {
      for j in 18 {
        Y[t, j, ramp(1, 1, $L)] = X[ramp(0, 1, $L), t, j]
        Y[t, j, ramp(0, 1, $L)] = X[ramp(1, 1, $L), t, ramp(1, 1, $L)]
      }
    })");
}

// Columns of a block, more of them than one block takes, at the very end of the buffer, in any order.
TEST(Memory, NeighbouringColumns) {
  check_all(R"(program columns
    kernel k(X: $T[16, 37] param, Y: $T[37, 16] param written, Z: $T[16, 16] param written) {
      for i in 2 {
        Y[i * 16, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16]
        Y[i * 16 + 1, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 1]
        Y[i * 16 + 3, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 3]
        Y[i * 16 + 2, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 2]
        Y[i * 16 + 4, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 4]
        Y[i * 16 + 5, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 5]
        Y[i * 16 + 20, ramp(0, 1, $L)] = X[ramp(0, 1, $L), i * 16 + 20]
      }
      Y[33, ramp(0, 1, $L)] = X[ramp(16 - $L, 1, $L), 33]
      Y[34, ramp(0, 1, $L)] = X[ramp(16 - $L, 1, $L), 34]
      Y[35, ramp(0, 1, $L)] = X[ramp(16 - $L, 1, $L), 35]
      Y[36, ramp(0, 1, $L)] = X[ramp(16 - $L, 1, $L), 36]
    })");
}

// A block loaded ahead would miss what an earlier store of the run wrote.
TEST(Memory, ColumnsOfWhatIsWritten) {
  check_all(R"(program written
    kernel k(X: $T[16, 16] param written) {
      X[1, ramp(0, 1, $L)] = X[ramp(0, 1, $L), 0]
      X[2, ramp(0, 1, $L)] = X[ramp(0, 1, $L), 1]
      X[3, ramp(0, 1, $L)] = X[ramp(0, 1, $L), 2]
      X[4, ramp(0, 1, $L)] = X[ramp(0, 1, $L), 3]
    })");
}

// The last element that is asked for is the last one of the buffer.
TEST(Memory, EveryOtherElement) {
  check_all(R"(program alternate
    kernel k(X: $T[32] param, Y: $T[2, $L] param written) {
      Y[0, ramp(0, 1, $L)] = X[ramp(0, 2, $L)]
      Y[1, ramp(0, 1, $L)] = X[ramp(33 - 2 * $L, 2, $L)]
    })");
}

TEST(Memory, OneElementForAllLanes) {
  check_all(R"(program once
    kernel k(X: $T[9] param, P: bool[$L] param, Y: $T[9, $L] param written) {
      for i in 9 {
        Y[i, ramp(0, 1, $L)] = broadcast(X[i], $L)
        if (i < 4) { Y[i, ramp(0, 1, $L)] = X[broadcast(i, $L)] }
        if (5 < i) { Y[i, ramp(0, 1, $L)] = (X[8] if P[ramp(0, 1, $L)]) }
      }
    })");
}

TEST(Memory, GatherAndScatter) {
  constexpr const char* kText = R"(program gather
    kernel k(I: $I[48] param, X: $T[48] param, Y: $T[48] param written, Z: $T[2, 48] param written, P: bool[48] param) {
      for i in 2 {
        Y[ramp(i * $L, 1, $L)] = X[I[ramp(i * $L, 1, $L)]]
        Z[0, I[ramp(i * $L, 1, $L)]] = X[ramp(i * $L, 1, $L)]
        Z[1, I[ramp(i * $L, 1, $L)]] = (X[I[ramp(i * $L + 2, 1, $L)]] if P[ramp(i, 1, $L)]) if P[ramp(i + 3, 1, $L)]
      }
    })";
  for (const DataType index : {DataType::i64(), DataType::i32()}) {
    const std::string_view text = kText;
    const size_t at = text.find("$I");
    const std::string typed = fmt::format("{}{}{}", text.substr(0, at), to_string(index), text.substr(at + 2));
    check_all(typed.c_str(), {{"I", permutation(index, 48, 11)}});
  }
}

TEST(Memory, TailsAreMaskedAtBothEnds) {
  // 37 is no multiple of any lane count: the last vector reaches behind the buffer, the first one of Z before it.
  check_all(R"(program tail
    kernel k(X: $T[37] param, Y: $T[37] param written, Z: $T[37] param written) tiles t in 10 {
      Y[ramp(t * $L, 1, $L)] = (X[ramp(t * $L, 1, $L)] if ramp(t * $L, 1, $L) < broadcast(37, $L)) if ramp(t * $L, 1, $L) < broadcast(37, $L)
      Z[ramp(t * $L - 3, 1, $L)] = (X[ramp(33 - t * $L, -1, $L)] if broadcast(0, $L) <= ramp(33 - t * $L, -1, $L) && ramp(33 - t * $L, -1, $L) < broadcast(37, $L)) if broadcast(0, $L) <= ramp(t * $L - 3, 1, $L) && ramp(t * $L - 3, 1, $L) <= broadcast(36, $L)
    })");
}

TEST(Memory, MasksOfEveryKindOfAccess) {
  check_all(R"(program masks
    kernel k(P: bool[64] param, X: $T[64] param, Y: $T[8, 64] param written) {
      for i in 3 {
        Y[i, ramp(0, 1, $L)] = (X[ramp(i, 1, $L)] if P[ramp(i, 1, $L)])
        Y[i, ramp(16, 1, $L)] = (X[ramp(i, 3, $L)] if P[ramp(i, 1, $L)])
        Y[i, ramp(32, 1, $L)] = (X[ramp(i + 20, -1, $L)] if P[ramp(i, 1, $L)])
        Y[i, ramp(48, 1, $L)] = (X[ramp(i, 1, $L)] if P[i])
        Y[i + 3, ramp(0, 1, $L)] = X[ramp(i, 1, $L)] if P[ramp(i, 1, $L)]
        Y[i + 3, ramp(63, -1, $L)] = X[ramp(i, 1, $L)] if P[ramp(i, 1, $L)]
        Y[i + 3, ramp(1, 3, $L)] = X[ramp(i, 1, $L)] if P[ramp(i, 1, $L)]
        Y[i, ramp(0, 1, $L)] = X[ramp(i, 1, $L)] if P[i + 1]
        Y[7, i] = X[i] if P[i]
        Y[7, i + 3] = (X[i] if P[i + 2])
      }
    })");
}

TEST(Memory, LaneComparisonsOfEverySense) {
  for (const int lanes : kLanes) {
    check_text(R"(program lanes
      kernel k(Y: bool[60, 8, $L] param written) tiles t in 60 {
        let b = t - 30
        Y[t, 0, ramp(0, 1, $L)] = ramp(b, 1, $L) < broadcast(3, $L)
        Y[t, 1, ramp(0, 1, $L)] = ramp(b, 1, $L) <= broadcast(3, $L)
        Y[t, 2, ramp(0, 1, $L)] = broadcast(3, $L) < ramp(b, 1, $L)
        Y[t, 3, ramp(0, 1, $L)] = broadcast(3, $L) <= ramp(b, 1, $L)
        Y[t, 4, ramp(0, 1, $L)] = ramp(b, -1, $L) < broadcast(t - 20, $L)
        Y[t, 5, ramp(0, 1, $L)] = ramp(b, 2, $L) <= ramp(0, 1, $L)
        Y[t, 6, ramp(0, 1, $L)] = ramp(b, 2, $L) < broadcast(5, $L)
        Y[t, 7, ramp(0, 1, $L)] = ramp(b, 1, $L) == broadcast(5, $L)
      })",
               lanes);
  }
}

TEST(Memory, SelectsProtectLoads) {
  // Rows and columns outside of X are never read: X lies between pages that fault.
  check_all(R"(program padding
    kernel k(X: $T[5, 13] param, Y: $T[7, 16, $L] param written) tiles t in 7 {
      for j in 16 {
        Y[t, j, ramp(0, 1, $L)] = select(1 <= t && t < 6, select(broadcast(0, $L) <= ramp(j * 2 - 9, 1, $L) && ramp(j * 2 - 9, 1, $L) < broadcast(13, $L), X[t - 1, ramp(j * 2 - 9, 1, $L)], broadcast(X[t - 1, 3], $L)), broadcast(X[2, 2], $L))
      }
    })");
  check_text(R"(program scalar
    kernel k(X: f32[5, 13] param, Y: f32[1000, 2] param written) tiles t in 1000 {
      Y[t, 0] = select(t < 13, X[0, t], 7:f32)
      Y[t, 1] = select(t < 500, select(t < 13, X[0, t], 1:f32), select(986 < t, X[4, t - 987], 2:f32))
    })",
             1, DataType::f32(), {{"X", small_ints(DataType::f32(), {5, 13}, 1)}});
}

TEST(Memory, PredicatesAndSelectsProtectTogether) {
  // X[j - 20 ..] lies in X only where both the predicate (from below) and the select (from above) hold.
  check_all(R"(program both
    kernel k(X: $T[13] param, Y: $T[50, $L] param written) {
      for j in 50 {
        let from = j - 20
        Y[j, ramp(0, 1, $L)] = select(ramp(from, 1, $L) < broadcast(13, $L), (X[ramp(from, 1, $L)] if broadcast(0, $L) <= ramp(from, 1, $L)), broadcast(X[j - j], $L))
      }
    })");
}

TEST(Memory, SelectsProtectLoadsAtLoadedIndices) {
  // Nothing is known of an index that comes from memory.
  loop::HostBuffer far = small_ints(DataType::i64(), {40}, 1, 0, 12);
  for (size_t i = 0; i < far.ints.size(); i += 3) far.ints[i] = 10'000'000 * (i % 2 == 0 ? 1 : -1);
  check_text(R"(program loaded
    kernel k(I: i64[40] param, X: f32[13] param, Y: f32[40] param written, Z: f32[40] param written) {
      for j in 40 {
        let at = I[j]
        Y[j] = select(0 <= at && at < 13, X[at], -1:f32)
      }
      for j in 5 {
        let at = I[ramp(j * 8, 1, 8)]
        Z[ramp(j * 8, 1, 8)] = select(broadcast(0, 8) <= at && at < broadcast(13, 8), X[at], broadcast(-1:f32, 8))
      }
    })",
             8, DataType::f32(), {{"I", far}});
}

TEST(Memory, ProtectedLoadsInsideSmallerVectorsAndReductions) {
  check_text(R"(program nested
    kernel k(X: f32[40] param, P: bool[$L] param, Y: f32[8, $L] param written, I: i32[$L] param, D: i32[$L] param, Z: i32[$L] param written) tiles t in 8 {
      Y[t, ramp(0, 1, $L)] = select(broadcast(t * 10, $L) < ramp(36, -1, $L), broadcast(X[t * 10] + reduce_add(X[ramp(t * 10, 1, 3)]), $L), broadcast(0:f32, $L))
      Z[ramp(0, 1, $L)] = select(D[ramp(0, 1, $L)] == broadcast(0:i32, $L), I[ramp(0, 1, $L)], I[ramp(0, 1, $L)] / D[ramp(0, 1, $L)]) if broadcast(t == 0, $L)
    })",
             8, DataType::f32(),
             {{"D", small_ints(DataType::i32(), {8}, 3, 0, 2)}, {"X", small_ints(DataType::f32(), {40}, 3)}});
}

TEST(Memory, DivisionByZeroIsProtected) {
  check_text(R"(program divide
    kernel k(A: i32[50] param, D: i32[50] param, Y: i32[50] param written) tiles t in 50 {
      Y[t] = select(D[t] == 0:i32, -1:i32, floordiv(A[t], D[t]) + floormod(A[t], D[t]))
    })",
             1, DataType::f32(), {{"D", small_ints(DataType::i32(), {50}, 3, 0, 2)}});
}

// A select whose loads are in bounds for every value of the loop variables costs no branch and no mask.
TEST(Memory, LoadsInBoundsNeedNoProtection) {
  // The last tile reads 8 elements from 48 + first: just inside of X for 8, one too far for 9.
  const auto text = [](int first) {
    return fmt::format(R"(program inside
      kernel k(X: f32[64] param, Y: f32[64] param written) tiles t in 4 {{
        for j in 8 {{ Y[t * 16 + j] = select(j < 3, X[t * 16 + j], X[0]) }}
        Y[ramp(t * 16, 1, 8)] = select(ramp(t, 1, 8) < broadcast(5, 8), X[ramp(t * 16 + {}, 1, 8)], broadcast(0:f32, 8))
      }})",
                       first);
  };
  const std::string inside = emit(parse(text(8)), host_level()).text();
  EXPECT_EQ(inside.find("masked"), std::string::npos) << inside;
  EXPECT_EQ(inside.find("pick:"), std::string::npos) << inside;
  const std::string outside = emit(parse(text(9)), host_level()).text();
  EXPECT_NE(outside.find("masked.load"), std::string::npos) << outside;
  check_text(text(8));
}

TEST(Memory, AlignmentIsWhatTheIndexProves) {
  const char* text = R"(program aligned
    kernel k(X: f32[8, 48] param, Z: f32[8, 20] param, Y: f32[8, 16] param written) tiles t in 8 {
      Y[t, ramp(0, 1, 16)] = X[t, ramp(16, 1, 16)] + X[t, ramp(8, 1, 16)] + X[t, ramp(1, 1, 16)] + Z[t, ramp(0, 1, 16)]
    })";
  const std::string ir = emit(parse(text), host_level()).text();
  for (const char* alignment : {"align 64,", "align 32,", "align 4,", "align 16,"}) {
    EXPECT_NE(ir.find(alignment), std::string::npos) << alignment << " is not in\n" << ir;
  }
  const std::string unaligned = emit(parse(text), host_level(), {.param_alignment = 4}).text();
  EXPECT_EQ(unaligned.find("align 64,"), std::string::npos) << unaligned;
  check_text(text);
}

// One address per loop variable: accesses that differ by constants share their base.
TEST(Memory, AccessesShareTheirBase) {
  const std::string ir = emit(parse(R"(program bases
    kernel k(X: f32[64, 33] param, Y: f32[60] param written) tiles t in 60 {
      Y[t] = X[t, 1] + X[t + 1, 2] + X[t + 2, 3] + X[t + 3, 32] + X[t + 4, 0]
    })"),
                              host_level())
                             .text();
  size_t products = 0;
  for (size_t at = ir.find("mul "); at != std::string::npos; at = ir.find("mul ", at + 1)) ++products;
  EXPECT_EQ(products, 2u) << "one for X, one for Y\n" << ir;
}

TEST(Memory, RegistersStackAndScratch) {
  check_all(R"(program scopes
    kernel k(X: $T[6, 64] param, Y: $T[6, 64] param written) tiles t in 6 {
      alloc r: $T[2, 16] register
      alloc s: $T[4, 16] stack
      r[0, ramp(0, 1, $L)] = X[t, ramp(3, 1, $L)]
      r[1, 5] = X[t, 7]
      for i in 2 {
        s[i, ramp(0, 1, $L)] = X[t, ramp(i * 2, 1, $L)]
        s[i + 2, i] = X[t, i]
      }
      alloc u: $T[3, 16] scratch {
        u[1, ramp(0, 1, $L)] = s[1, ramp(0, 1, $L)]
        alloc v: $T[17] scratch { v[t] = r[1, 5]
          Y[t, 1] = v[t] }
        alloc w: $T[17] scratch { w[t + 1] = s[2, 0]
          Y[t, 2] = w[t + 1] }
        Y[t, ramp(8, 1, $L)] = u[1, ramp(0, 1, $L)]
      }
      Y[t, ramp(32, 1, $L)] = r[0, ramp(0, 1, $L)]
      Y[t, 63] = s[3, 1]
    })");
}

TEST(Memory, ScratchOfSiblingsIsShared) {
  const MachineCode code = compile_object(parse(R"(program scratch
    kernel none(Y: f32[1] param written) { Y[0] = 1:f32 }
    kernel some(Y: f32[1] param written) {
      alloc a: f32[17] scratch {
        a[0] = 1:f32
        alloc b: i8[3] scratch { b[0] = 1:i8 }
        alloc c: f64[16] scratch { c[0] = 1:f64 }
      }
      alloc d: f32[40] scratch { d[0] = 1:f32 }
      Y[0] = 1:f32
    })"),
                                          host_level());
  EXPECT_EQ(code.kernel("none").scratch_bytes, 0);
  EXPECT_EQ(code.kernel("some").scratch_bytes, 128 + 128);
}

TEST(Memory, RegisterBuffersLeaveNoMemory) {
  const loop::Program program = parse(R"(program registers
    kernel k(X: f32[64] param, Y: f32[64] param written) {
      alloc acc: f32[4, 16] register
      acc[0, ramp(0, 1, 16)] = X[ramp(0, 1, 16)]
      acc[1, ramp(0, 1, 16)] = X[ramp(16, 1, 16)]
      for i in 9 { acc[0, ramp(0, 1, 16)] = acc[0, ramp(0, 1, 16)] * acc[1, ramp(0, 1, 16)] }
      Y[ramp(0, 1, 16)] = acc[0, ramp(0, 1, 16)]
    })");
  const MachineCode code = compile_object(program, *find_level("x86-64-v4"));
  EXPECT_EQ(code.kernel("k").stack_bytes, 0);
  EXPECT_EQ(code.kernel("k").vector_spills, 0);
}

// Lanes that a mask leaves out keep their values, and cost no way through memory.
TEST(Memory, MasksOfRegisterBuffers) {
  const char* const text = R"(program masked
    kernel k(X: f32[64] param, Y: f32[64] param written) {
      alloc acc: f32[2, 8] register
      acc[0, ramp(0, 1, 8)] = X[ramp(0, 1, 8)]
      acc[1, ramp(0, 1, 8)] = X[ramp(8, 1, 8)]
      for i in 9 {
        acc[0, ramp(0, 1, 8)] = acc[1, ramp(0, 1, 8)] * X[i] if (ramp(0, 1, 8) < broadcast(5, 8))
        acc[1, ramp(0, 1, 8)] = (acc[0, ramp(0, 1, 8)] if (broadcast(2, 8) < ramp(0, 1, 8)))
      }
      Y[ramp(0, 1, 8)] = acc[0, ramp(0, 1, 8)]
      Y[ramp(8, 1, 8)] = acc[1, ramp(0, 1, 8)]
    })";
  check_all(text);
  const MachineCode code = compile_object(parse(text), *find_level("x86-64-v3"));
  EXPECT_EQ(code.kernel("k").stack_bytes, 0);
}

// The last vector ends beyond the buffer, in lanes that the mask leaves out.
TEST(Memory, MasksAtTheEndOfARegisterBuffer) {
  check_all(R"(program tail
    kernel k(X: f32[64] param, Y: f32[64] param written) {
      alloc acc: f32[10] register
      acc[ramp(0, 1, 8)] = X[ramp(0, 1, 8)]
      acc[ramp(8, 1, 8)] = broadcast(0:f32, 8) if (ramp(0, 1, 8) < broadcast(2, 8))
      for i in 9 {
        acc[ramp(8, 1, 8)] = (X[ramp(i, 1, 8)] if (ramp(0, 1, 8) < broadcast(2, 8))) + (acc[ramp(8, 1, 8)] if (ramp(0, 1, 8) < broadcast(2, 8))) if (ramp(0, 1, 8) < broadcast(2, 8))
      }
      Y[ramp(0, 1, 8)] = acc[ramp(0, 1, 8)]
      Y[ramp(8, 1, 8)] = (acc[ramp(8, 1, 8)] if (ramp(0, 1, 8) < broadcast(2, 8))) if (ramp(0, 1, 8) < broadcast(2, 8))
    })");
}

// In place, the first iteration changes what the others read as X[0]: only right when X[0] is not held in a register.
TEST(Memory, ParametersMayOverlapWhenAsked) {
  const loop::Program program = parse(R"(program overlap
    kernel k(X: i32[32] param, Y: i32[32] param written) {
      for i in 32 { Y[i] = X[i] + X[0] }
    })");
  const JitModule jit(program, host_level(), {.aliasing = ParamAliasing::kMayOverlap});
  alignas(64) int32_t data[32];
  std::fill(std::begin(data), std::end(data), 1);
  void* table[] = {data, data};
  jit.function("k")(table, nullptr, 0, 1);
  EXPECT_EQ(data[0], 2);
  for (int i = 1; i < 32; ++i) EXPECT_EQ(data[i], 3) << i;
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
