// Sums of products of pairs of 16-bit integers (expr/pair_product.h): one instruction where a register holds the words
// of all lanes, and the interpreter's bits everywhere.
#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

// The half of a word that all lanes share is taken before it is broadcast, as vectorizing leaves it.
constexpr const char* kProgram = R"(program pairs
  kernel k(A: i32[9] param, B: i32[9, $L] param, S: i32[$L] param written) {
    S[ramp(0, 1, $L)] = broadcast(0:i32, $L)
    for k in 9 {
      S[ramp(0, 1, $L)] = S[ramp(0, 1, $L)] + (broadcast((A[k] << 16:i32) >> 16:i32, $L) * ((B[k, ramp(0, 1, $L)] << broadcast(16:i32, $L)) >> broadcast(16:i32, $L)) + broadcast(A[k] >> 16:i32, $L) * (B[k, ramp(0, 1, $L)] >> broadcast(16:i32, $L)))
    }
  })";

TEST(PairProduct, HasTheInterpretersBits) {
  for (const int lanes : {3, 4, 8, 16, 32}) check_text(kProgram, lanes);
}

TEST(PairProduct, IsOneInstruction) {
  for (const auto& [level, lanes] : {std::pair{"x86-64", 4}, {"x86-64-v3", 8}, {"x86-64-v4", 16}}) {
    const std::string assembly = compile_assembly(parse(kProgram, lanes), *find_level(level));
    EXPECT_NE(assembly.find("pmaddwd"), std::string::npos) << level;
    EXPECT_EQ(assembly.find("pmull"), std::string::npos) << level;
  }
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
