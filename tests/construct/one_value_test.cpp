// One value as several operands: as inputs of their own, which is how groups come (te/operands.h), and as one tensor,
// as what is computed inside a group may be.
#include <gtest/gtest.h>

#include "te/operands.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

constexpr double kTolerance = 1e-4;  // of exponentials

std::vector<testing::NamedProgram> programs() {
  std::vector<testing::NamedProgram> all = testing::one_value_programs();
  for (const int64_t n : {33, 40}) all.push_back({fmt::format("square {}", n), testing::square(n)});
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{33, 20}, {18, 40}})
    all.push_back({fmt::format("gram {}x{}", m, k), testing::gram(m, k)});
  all.push_back({"plus transposed 64", testing::plus_transposed(64)});
  all.push_back({"softmax of x 24x20 times itself", testing::attention_of_itself(24, 20)});
  all.push_back({"conv 4^2 16 with itself", testing::conv_with_itself(4, 16)});
  return all;
}

// All candidates of the families that take the programs.
void check_all(const targets::Target& t) {
  for (const testing::NamedProgram& p : programs()) {
    for (const te::Program& program : {p.program, te::separate_operands(p.program).program}) {
      SCOPED_TRACE(fmt::format("{} on {}, {} inputs", p.name, t.info.name, program.inputs.size()));
      const GroupTask task{merged(program), {}};
      for (const Construction& built : construct(t.families, task, t.info, nullptr))
        check_candidate(task, t, built, kTolerance);
    }
  }
}

TEST(OneValue, OnEveryTarget) {
  for (const char* target : {"cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_80", "cuda:sm_90a"})
    check_all(targets::find_target(target));
}

// Panels that come from far away, one after the other.
TEST(OneValue, WithTinyCaches) { check_all(with_tiny_caches("cpu:x86-64-v3")); }

// Both operands are constants, each stored as its place in the product wants it.
TEST(OneValue, ConstantsHaveALayoutForEachOperand) {
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  const te::Program program = te::separate_operands(testing::square(40)).program;
  const GroupTask task{merged(program), {program.inputs[0].name, program.inputs[1].name}};
  for (const Construction& built : construct(t.families, task, t.info, nullptr)) {
    check_candidate(task, t, built, kTolerance);
    EXPECT_EQ(built.constant_layouts.size(), 1u);
    EXPECT_TRUE(built.constant_layouts.contains(program.inputs[1].name));
  }
}

// The right operand alone goes into panels, also where both are one tensor.
TEST(OneValue, OneOperandIsCopied) {
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  for (const te::Program& program : {testing::square(64), te::separate_operands(testing::square(64)).program}) {
    const Construction built = construct(t.families, {merged(program), {}}, t.info, nullptr).front();
    const std::string text = schedule::to_string(built.schedule);
    EXPECT_NE(text.find(program.inputs.size() == 1 ? "cache_read x y [2]" : "cache_read x_1 y\n"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace tw::construct
