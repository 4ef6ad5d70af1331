// Whatever schedule apply() accepts computes what the te program says.
#include <gtest/gtest.h>

#include "tests/harness/loop_check.h"
#include "tests/harness/random_schedule.h"
#include "tests/harness/te_programs.h"

namespace tw::testing {
namespace {

constexpr uint64_t kSchedules = 60;  // for each program
constexpr int kLength = 24;

double tolerance_of(const NamedProgram& p) { return p.name.starts_with("softmax") ? 1e-5 : 0; }

TEST(RandomSchedules, ComputeWhatTheProgramSays) {
  for (const NamedProgram& p : odd_programs()) {
    const te::ValueMap inputs = whole_inputs(p.program);
    const te::ValueMap want = te::evaluate(p.program, inputs);
    for (uint64_t seed = 1; seed <= kSchedules; ++seed) {
      const schedule::Schedule s = random_schedule(p.program, seed, kLength);
      SCOPED_TRACE(p.name + ", seed " + std::to_string(seed) + "\n" + to_string(p.program) + to_string(s));
      ASSERT_EQ(schedule::parse_schedule(to_string(s)), s);
      loop::Program loops;
      ASSERT_NO_THROW(loops = schedule::apply(p.program, s));
      SCOPED_TRACE(loop::to_string(loops));
      ASSERT_NO_THROW(loop::verify(loops));
      loop::Memory memory;
      ASSERT_NO_THROW(memory = run_loops(loops, inputs));
      ASSERT_EQ(first_difference(p.program, want, memory, tolerance_of(p)), "");
    }
  }
}

}  // namespace
}  // namespace tw::testing
