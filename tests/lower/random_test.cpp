// Every loop pass keeps what random schedules compute: interpreted after each pass, and compared with the te program.
#include "support/error.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/random_schedule.h"
#include "tests/harness/te_programs.h"
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

constexpr uint64_t kSchedules = 20;  // for each program
constexpr int kLength = 24;

struct Tried {
  int lowered = 0;
  int refused = 0;  // registers that no unrolling makes constant
};

// Lowers one schedule and checks every stage of it.
void check(const testing::NamedProgram& p, const schedule::Schedule& s, RunOptions options, Tried& tried) {
  const te::ValueMap inputs = testing::whole_inputs(p.program);
  const te::ValueMap want = te::evaluate(p.program, inputs);
  const double tolerance = p.name.starts_with("softmax") ? 1e-5 : 0;
  options.lower.inner_divisor = 0;  // random fusions divide
  options.dump = [&](std::string_view pass, const loop::Program& loops) {
    SCOPED_TRACE("after " + std::string(pass) + "\n" + loop::to_string(loops));
    loop::Memory memory;
    ASSERT_NO_THROW(memory = testing::run_loops(loops, inputs));
    ASSERT_EQ(testing::first_difference(p.program, want, memory, tolerance), "");
  };
  try {
    lower(schedule::apply(p.program, s), options);
    ++tried.lowered;
  } catch (const InternalError& error) {
    const bool registers = std::string(error.what()).find("of the register buffer") != std::string::npos;
    ASSERT_TRUE(registers) << error.what();
    ++tried.refused;
  }
}

void check_all(const RunOptions& options) {
  Tried tried;
  for (const testing::NamedProgram& p : testing::odd_programs()) {
    for (uint64_t seed = 1; seed <= kSchedules; ++seed) {
      const schedule::Schedule s = testing::random_schedule(p.program, seed, kLength);
      SCOPED_TRACE(p.name + ", seed " + std::to_string(seed) + "\n" + to_string(p.program) + to_string(s));
      check(p, s, options, tried);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_LT(tried.refused * 50, tried.lowered) << tried.refused << " of " << tried.lowered << " refused";
}

TEST(RandomLowering, EveryPassKeepsTheResults) { check_all({}); }

TEST(RandomLowering, EveryPassPrintsWhatItParses) {
  for (const testing::NamedProgram& p : testing::odd_programs()) {
    RunOptions options;
    options.lower.inner_divisor = 0;
    options.dump = [](std::string_view pass, const loop::Program& loops) {
      const std::string text = loop::to_string(loops);
      ASSERT_EQ(loop::to_string(loop::parse_program(text)), text) << "after " << pass;
    };
    lower(schedule::apply(p.program, testing::random_schedule(p.program, 3, kLength)), options);
  }
}

TEST(RandomLowering, WithoutSplitGuardsToo) {
  RunOptions options;
  options.disabled = {"split-guards"};
  check_all(options);
}

}  // namespace
}  // namespace tw::lower::test
