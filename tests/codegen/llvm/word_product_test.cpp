// Sums of products of words (expr/word_product.h): one instruction where the level has it and a register holds the
// words of all lanes, and the interpreter's bits everywhere.
#include "expr/word_product.h"

#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

// The half of a word that all lanes share is taken before it is broadcast, as vectorizing leaves it.
constexpr const char* kPairs = R"(program pairs
  kernel k(A: i32[9] param, B: i32[9, $L] param, S: i32[$L] param written) {
    S[ramp(0, 1, $L)] = broadcast(0:i32, $L)
    for k in 9 {
      S[ramp(0, 1, $L)] = S[ramp(0, 1, $L)] + (broadcast((A[k] << 16:i32) >> 16:i32, $L) * ((B[k, ramp(0, 1, $L)] << broadcast(16:i32, $L)) >> broadcast(16:i32, $L)) + broadcast(A[k] >> 16:i32, $L) * (B[k, ramp(0, 1, $L)] >> broadcast(16:i32, $L)))
    }
  })";

// S = S + the products of the words A[k] in all lanes and B[k, ..].
std::string text_of(WordFormat format, int lanes) {
  const Expr a = broadcast(load("A", DataType::i32(), {var("k")}), lanes);
  const Expr b = load("B", DataType::i32().with_lanes(lanes), {var("k"), ramp(Expr(0), Expr(1), lanes)});
  return fmt::format(R"(program words
  kernel k(A: i32[9] param, B: i32[9, {0}] param, S: {2}[{0}] param written) {{
    S[ramp(0, 1, {0})] = broadcast(0:{2}, {0})
    for k in 9 {{
      S[ramp(0, 1, {0})] = S[ramp(0, 1, {0})] + {1}
    }}
  }})",
                     lanes, to_string(word_product(format, a, b)), to_string(sum_type(format)));
}

TEST(WordProduct, HasTheInterpretersBits) {
  for (const int lanes : {3, 4, 8, 16, 32}) check_text(kPairs, lanes);
  for (const WordFormat format : {WordFormat::kPairs, WordFormat::kQuads}) {
    for (const int lanes : {3, 4, 8, 16, 32}) check_text(text_of(format, lanes));
  }
}

struct Instruction {
  const char* level;
  int lanes;
  WordFormat format;
  const char* name;  // in AT&T's spelling
  bool sums;         // it adds to what was summed before
};

TEST(WordProduct, IsOneInstruction) {
  constexpr Instruction kRows[] = {
      {"x86-64", 4, WordFormat::kPairs, "pmaddwd", false},
      {"x86-64-v3", 8, WordFormat::kPairs, "vpmaddwd", false},
      {"x86-64-v4", 16, WordFormat::kPairs, "vpmaddwd", false},
      // A product and its sum.
      {"x86-64-v3+avxvnni", 8, WordFormat::kPairs, "vpdpwssd", true},
      {"x86-64-v4+avx512vnni", 16, WordFormat::kPairs, "vpdpwssd", true},
      {"x86-64-v3+avxvnni", 4, WordFormat::kQuads, "vpdpbusd", true},
      {"x86-64-v3+avxvnni", 8, WordFormat::kQuads, "vpdpbusd", true},
      {"x86-64-v4+avx512vnni", 8, WordFormat::kQuads, "vpdpbusd", true},
      {"x86-64-v4+avx512vnni", 16, WordFormat::kQuads, "vpdpbusd", true},
      {"x86-64-v4+avx512bf16", 4, WordFormat::kBf16, "vdpbf16ps", true},
      {"x86-64-v4+avx512bf16", 8, WordFormat::kBf16, "vdpbf16ps", true},
      {"x86-64-v4+avx512bf16", 16, WordFormat::kBf16, "vdpbf16ps", true},
  };
  for (const Instruction& row : kRows) {
    SCOPED_TRACE(fmt::format("{} x{} {}", row.level, row.lanes, row.name));
    const std::string assembly = compile_assembly(parse(text_of(row.format, row.lanes)), *find_level(row.level));
    EXPECT_NE(assembly.find(row.name), std::string::npos) << assembly;
    EXPECT_EQ(assembly.find("pmull"), std::string::npos);
    EXPECT_EQ(assembly.find("pdpbusds"), std::string::npos) << "it saturates";
    EXPECT_EQ(assembly.find("paddd") == std::string::npos, row.sums) << assembly;
    EXPECT_EQ(assembly.find("addps"), std::string::npos) << assembly;
  }
}

TEST(WordProduct, UnsignedBytesAreTheLeftOperand) {
  // Of the two sources of vpdpbusd, the last but one in AT&T's order is unsigned: the broadcast word of A.
  const std::string assembly =
      compile_assembly(parse(text_of(WordFormat::kQuads, 16)), *find_level("x86-64-v4+avx512vnni"));
  const size_t at = assembly.find("vpbroadcastd");
  ASSERT_NE(at, std::string::npos) << assembly;
  const std::string line = assembly.substr(at, assembly.find('\n', at) - at);
  const std::string broadcast = line.substr(line.rfind('%'));
  const size_t dot = assembly.find("vpdpbusd");
  const std::string operands = assembly.substr(dot, assembly.find('\n', dot) - dot);
  EXPECT_NE(operands.find("), " + broadcast.substr(0, broadcast.find_first_of(" \t")) + ", "), std::string::npos)
      << operands << " after " << line;
}

TEST(WordProduct, IsRecognised) {
  for (const WordFormat format : {WordFormat::kPairs, WordFormat::kQuads, WordFormat::kBf16}) {
    const Expr a = load("A", DataType::i32(), {var("k")});
    const Expr b = load("B", DataType::i32().with_lanes(8), {ramp(var("k"), Expr(1), 8)});
    const Expr whole = word_product(format, broadcast(a, 8), b);
    const std::optional<WordOperands> words = match_word_product(whole);
    ASSERT_TRUE(words);
    EXPECT_EQ(words->format, format);
    EXPECT_TRUE(equal(words->a, broadcast(a, 8)));
    EXPECT_TRUE(equal(words->b, b));
    // Terms in another order, or of other words, are none.
    EXPECT_FALSE(match_word_product(binary(Op::kAdd, whole.arg(1), whole.arg(0))));
    EXPECT_FALSE(match_word_product(binary(Op::kAdd, whole.arg(0), whole.arg(0))));
  }
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
