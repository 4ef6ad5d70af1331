// The blob: layout, relocations, determinism, threads; the levels as data.
#include <cstring>

#include "support/error.h"
#include "support/parallel.h"
#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

// Constants in memory: a vector of lane numbers, float immediates, and two kernels that share them.
const char* const kConstants = R"(program constants
  kernel first(X: f32[32] param, Y: f32[32] param written) tiles t in 2 {
    Y[ramp(t * 16, 1, 16)] = cast<f32>(ramp(t, 3, 16)) * X[ramp(t * 16, 1, 16)] + broadcast(0.1:f32, 16)
  }
  kernel second(Y: f64[4] param written) { for i in 4 { Y[i] = select(i < 2, 1.25:f64, 3.7:f64) * 1.1:f64 } })";

TEST(Object, RunsWhereverItIsMapped) {
  const loop::Program program = parse(kConstants);
  const MachineCode code = compile_object(program, host_level());
  EXPECT_EQ(code.code.size() % 64, 0u);
  ASSERT_EQ(code.kernels.size(), 2u);
  for (const KernelEntry& kernel : code.kernels) {
    EXPECT_EQ(kernel.offset % 64, 0);
    EXPECT_GT(kernel.size, 0);
    EXPECT_LE(kernel.offset + kernel.size, static_cast<int64_t>(code.code.size()));
  }
  for (int copy = 0; copy < 3; ++copy) {
    const MappedCode mapped(code);
    alignas(64) float x[32], y[32] = {};
    std::fill(std::begin(x), std::end(x), 2.0f);
    void* table[] = {x, y};
    mapped.function(code.kernel("first"))(table, nullptr, 0, 2);
    for (int i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(y[i], static_cast<float>(i / 16 + 3 * (i % 16)) * 2.0f + 0.1f);
    alignas(64) double z[4] = {};
    void* second[] = {z};
    mapped.function(code.kernel("second"))(second, nullptr, 0, 1);
    EXPECT_DOUBLE_EQ(z[1], 1.25 * 1.1);
    EXPECT_DOUBLE_EQ(z[2], 3.7 * 1.1);
  }
}

TEST(Object, SameInputGivesSameBytes) {
  for (const CpuLevel& level : cpu_levels()) {
    EXPECT_EQ(compile_object(parse(kConstants), level).code, compile_object(parse(kConstants), level).code)
        << level.name;
  }
}

// Its constants are found by their distance: what our linker patches is run under an emulator
// (scripts/aarch64_tests.sh).
TEST(Object, OfAnotherArchitecture) {
  const std::optional<CpuLevel> level = find_level("aarch64");
  ASSERT_TRUE(level.has_value());
  const MachineCode code = compile_object(parse(kConstants), *level);
  ASSERT_EQ(code.kernels.size(), 2u);
  for (const KernelEntry& kernel : code.kernels) EXPECT_EQ(kernel.offset % 64, 0);
  EXPECT_NE(compile_assembly(parse(kConstants), *level).find(".4s"), std::string::npos);
  EXPECT_NE(code.code, compile_object(parse(kConstants), *find_level("x86-64-v3")).code);
  EXPECT_FALSE(find_level("aarch64+avx512vnni").has_value());
}

TEST(Object, ThreadsChangeNothing) {
  std::vector<loop::Program> programs;
  for (int n = 1; n <= 12; ++n) {
    programs.push_back(
        parse(fmt::format("program p kernel k(X: f32[64] param, Y: f32[64] param written) tiles t in 4 {{"
                          " for i in 16 {{ Y[t * 16 + i] = X[t * 16 + i] * {}:f32 }} }}",
                          n)));
  }
  const auto compiled = [&](int threads) {
    std::vector<std::vector<std::byte>> codes(programs.size());
    parallel_for(codes.size(), threads, [&](size_t i) { codes[i] = compile_object(programs[i], host_level()).code; });
    return codes;
  };
  const auto one = compiled(1);
  EXPECT_EQ(one, compiled(4));
  EXPECT_NE(one[1], one[2]) << "each program has its own constant";
}

TEST(Object, LoopsThatAreNotLoweredAreNamed) {
  const loop::Program program =
      parse("program p kernel k(Y: f32[4] param written) { for a in 4 unrolled { Y[a] = 1:f32 } }");
  try {
    compile_object(program, host_level());
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("loop a is not lowered"), std::string::npos) << error.what();
  }
}

TEST(Levels, AreOrderedAndKnowTheHost) {
  EXPECT_FALSE(find_level("x86-64-v9"));
  EXPECT_EQ(find_level("host")->required, host_level().required);
  int previous = 0;
  size_t features = 0;
  for (const CpuLevel& level : cpu_levels()) {
    if (level.triple != cpu_levels().front().triple) continue;  // levels of one architecture
    EXPECT_EQ(find_level(level.name)->required, level.required);
    EXPECT_GE(level.vector_bytes, previous);
    EXPECT_GT(level.required.size(), features);
    previous = level.vector_bytes;
    features = level.required.size();
  }
  EXPECT_TRUE(find_level("x86-64-v3")->has("fma"));
  EXPECT_FALSE(find_level("x86-64-v2")->has("fma"));
  EXPECT_TRUE(runs_on_host(host_level()));
  CpuLevel impossible = cpu_levels()[0];
  impossible.required.push_back("no-such-feature");
  EXPECT_FALSE(runs_on_host(impossible));
}

TEST(Levels, TakeExtensions) {
  const CpuLevel wide = *find_level("x86-64-v4+avx512vnni+avx512bf16");
  EXPECT_EQ(wide.cpu, "x86-64-v4");
  EXPECT_EQ(wide.features, "+avx512vnni,+avx512bf16");
  EXPECT_TRUE(wide.has("avx512vnni") && wide.has("avx512bf16") && wide.has("fma"));
  EXPECT_EQ(wide.required.size(), find_level("x86-64-v4")->required.size() + 2);
  EXPECT_FALSE(find_level("x86-64-v4+avx512magic"));
  EXPECT_FALSE(find_level("x86-64-v4+"));
}

// Wide vectors stay whole: one 64-byte register, not two of 32 bytes.
TEST(Levels, WideVectorsStayWhole) {
  const loop::Program program = parse(
      "program p kernel k(X: f32[16] param, Y: f32[16] param written) { Y[ramp(0, 1, 16)] = X[ramp(0, 1, 16)] + "
      "X[ramp(0, 1, 16)] }");
  EXPECT_NE(compile_assembly(program, *find_level("x86-64-v4")).find("%zmm"), std::string::npos);
  // LLVM's model of this CPU prefers half of them.
  CpuLevel skylake = *find_level("x86-64-v4");
  skylake.cpu = "skylake-avx512";
  EXPECT_NE(compile_assembly(program, skylake).find("%zmm"), std::string::npos);
  const std::string v3 = compile_assembly(program, *find_level("x86-64-v3"));
  EXPECT_EQ(v3.find("%zmm"), std::string::npos);
  EXPECT_NE(v3.find("%ymm"), std::string::npos);
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
