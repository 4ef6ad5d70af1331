// The runner: order, switching off, stopping, and rules that name the pass after which they are broken.
#include "support/error.h"
#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

using Names = std::vector<std::string>;

Names dumped(RunOptions options, const loop::Program& program) {
  Names names;
  options.dump = [&](std::string_view pass, const loop::Program&) { names.emplace_back(pass); };
  lower(program, options);
  return names;
}

Names all_passes() {
  Names names{"schedule"};
  for (const LoopPass& pass : pipeline()) names.emplace_back(pass.name);
  return names;
}

template <typename Error>
std::string message(const RunOptions& options, const loop::Program& program) {
  try {
    lower(program, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pipeline, DumpsTheInputAndEveryPass) { EXPECT_EQ(dumped({}, kernel("S[t] = 0:f32")), all_passes()); }

TEST(Pipeline, TimesEveryPass) {
  Names timed{"schedule"};
  RunOptions options;
  options.time = [&](std::string_view pass, int64_t nanoseconds) {
    timed.emplace_back(pass);
    EXPECT_GE(nanoseconds, 0);
  };
  lower(kernel("S[t] = 0:f32"), options);
  EXPECT_EQ(timed, all_passes());
}

TEST(Pipeline, EveryOptionalPassMayBeOff) {
  for (const LoopPass& pass : pipeline()) {
    RunOptions options;
    options.disabled = {std::string(pass.name)};
    if (pass.optional) {
      const Names names = dumped(options, kernel("S[t] = 0:f32"));
      EXPECT_EQ(std::count(names.begin(), names.end(), pass.name), 0);
    } else {
      const std::string why = message<UserError>(options, kernel("S[t] = 0:f32"));
      EXPECT_EQ(why, "loop pass '" + std::string(pass.name) + "' is required and cannot be disabled");
    }
  }
}

TEST(Pipeline, UnknownPassesAreNamed) {
  RunOptions options;
  options.disabled = {"vectorise"};
  EXPECT_EQ(message<UserError>(options, kernel("S[t] = 0:f32")).substr(0, 39),
            "no loop pass 'vectorise'; there are sim");
}

TEST(Pipeline, StopsAfterThePassThatIsAsked) {
  RunOptions options;
  options.stop_after = "vectorize";
  EXPECT_EQ(dumped(options, kernel("S[t] = 0:f32")),
            (Names{"schedule", "simplify", "split-guards", "single-turns", "part-masks", "vectorize"}));
}

TEST(Pipeline, BrokenRulesNameThePass) {
  const loop::Program divides = kernel("for i in 16 { Y[floordiv(i, 4), floormod(i, 4)] = 0:f32 }");
  EXPECT_NE(message<InternalError>({}, divides).find("after loop pass 'simplify-copies': kernel k:"),
            std::string::npos);
  RunOptions options;
  options.lower.inner_divisor = 12;
  EXPECT_EQ(message<InternalError>(options, divides), "no error");
  options.lower.inner_divisor = 6;
  EXPECT_NE(message<InternalError>(options, divides).find("divides the variable of an innermost loop"),
            std::string::npos);
  const loop::Program moving = kernel("alloc a: f32[4] register for i in 4 { a[i] = 0:f32 }");
  EXPECT_NE(message<InternalError>({}, moving).find("index i of the register buffer a is no constant"),
            std::string::npos);
  loop::Program broken = kernel("S[t] = 0:f32");
  broken.kernels[0].written.clear();
  EXPECT_NE(message<InternalError>({}, broken).find("after loop pass 'schedule': kernel k:"), std::string::npos);
}

TEST(Pipeline, NoElementaryFunctionIsLeft) {
  const loop::Program done = lower(kernel("for j in 16 vectorized { Y[t, j] = exp(X[t, j]) }"), {});
  EXPECT_EQ(loop::to_string(done).find("exp("), std::string::npos) << loop::to_string(done);
}

}  // namespace
}  // namespace tw::lower::test
