// ALT's operators under their layout templates as loops: on the interpreter and as machine code, with no division by a
// layout's factor in an innermost loop.
#include "te/layout_templates.h"

#include "lower/pass.h"
#include "support/error.h"
#include "support/join.h"
#include "te/materialize.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tests/codegen/llvm/harness.h"
#include "tests/harness/alt_operators.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_programs.h"

namespace tw::codegen::cpu::testing {
namespace {

using tw::testing::alt_operator;
using tw::testing::first_difference;
using tw::testing::run_loops;
using tw::testing::stored_in;

const te::LayoutTemplate& row_of(std::string_view name) {
  return te::layout_templates()[index_of(te::layout_templates(), name, &te::LayoutTemplate::name)];
}

// `own`: what the maths divides by; the verifier refuses any other division in an innermost loop.
loop::Program lowered(const te::Program& program, int64_t own) {
  lower::RunOptions options;
  options.lower.inner_divisor = own;
  return lower::lower(schedule::apply(program, {}), options);
}

class LayoutTemplates : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(LayoutTemplates, ComputeTheSameAsMachineCode) {
  const auto [name, levels] = GetParam();
  for (uint64_t seed = 100; seed < 104; ++seed) {
    std::mt19937_64 random(seed);
    const auto [program, layouts, tiled] =
        tw::testing::tiled_operator(alt_operator(name, random), row_of(name), levels, random);
    const te::ValueMap inputs = tw::testing::whole_inputs(program);
    te::ValueMap stored, want = te::evaluate(program, inputs);
    for (const te::Tensor& t : program.inputs)
      stored[t.name] = stored_in(inputs.at(t.name), value_or(layouts, t.name, Layout()));
    const std::string& out = program.outputs[0];
    want[out] = stored_in(want.at(out), layouts.at(out));
    const loop::Program loops = lowered(tiled, te::common_divisor(program));
    loop::Memory memory = run_loops(loops, stored);
    EXPECT_EQ(first_difference(tiled, want, memory, 0), "") << "seed " << seed << "\n" << to_string(tiled);
    for (double& x : memory.at(out).floats) x = 777;
    run_compiled(loops, *find_level("host"), Placement::kAtPageEnd, memory);
    EXPECT_EQ(first_difference(tiled, want, memory, 0), "") << "seed " << seed << "\n" << to_string(tiled);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutTemplates,
                         ::testing::Combine(::testing::Values("C1D", "C2D", "C3D", "DIL", "GRP", "DEP", "T2D", "T3D",
                                                              "GMM"),
                                            ::testing::Values(1, 2)));

TEST(LayoutRule, DivisionsByFactorsAreRefusedInInnermostLoops) {
  std::mt19937_64 random(7);
  const te::Program program = te::parse_program(
      "te gmm\ninput A: f32[8, 32]\ninput B: f32[32, 8]\nC: f32[8, 8] = sum(r0 in 32) over (i0, i1) of (A[i0, r0] * "
      "B[r0, i1])\noutput C\n");
  const auto layouts = te::template_layouts(program, row_of("GMM"), {{'m', {4}}, {'n', {4}}, {'k', {16}}});
  ASSERT_TRUE(layouts.ok()) << layouts.reason();
  try {
    lowered(te::apply_layouts(program, *layouts), te::common_divisor(program));
    FAIL() << "r0 / 16 and r0 % 16 are left in the innermost loop";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("floordiv("), std::string::npos) << error.what();
  }
}

// A bias as one more row of its weights, whose columns are in blocks: one parameter less.
TEST(StoreAt, TheBiasIsALineOfTheWeights) {
  const te::Program program = tw::testing::matmul_relu(5, 16, 7);
  const Layout columns = Layout().split(1, {2, 8}), w = Layout().store_at(0, "bias").then(columns).reorder({1, 0, 2});
  const te::Program attached = te::apply_layouts(program, {{"w", w}, {"y", columns}, {"z", columns}});
  const loop::Program loops = lowered(attached, 1);
  const std::string text = loop::to_string(loops);
  EXPECT_EQ(text.find("bias"), std::string::npos) << text;
  EXPECT_NE(text.find("w[z.i1, 7, z.i2]"), std::string::npos) << text;

  const te::ValueMap inputs = tw::testing::whole_inputs(program);
  const auto bytes = [](const te::TensorValues& v) { return std::as_bytes(std::span(v.floats)); };
  te::TensorValues weights = te::zeros(DataType::f32(), attached.tensor("w").shape);
  te::materialize_into(std::as_writable_bytes(std::span(weights.floats)), bytes(inputs.at("w")), sizeof(double),
                       {7, 16}, w, {.slices = {{"bias", bytes(inputs.at("bias"))}}});
  loop::Memory memory = run_loops(loops, {{"x", inputs.at("x")}, {"w", weights}});
  const te::ValueMap want = te::evaluate(program, inputs);
  EXPECT_EQ(first_difference(program, want, memory, 0), "");
  for (double& x : memory.at("z").floats) x = 777;
  run_compiled(loops, *find_level("host"), Placement::kAtPageEnd, memory);
  EXPECT_EQ(first_difference(program, want, memory, 0), "");
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
