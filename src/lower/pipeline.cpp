#include <algorithm>
#include <chrono>

#include "lower/pass.h"
#include "lower/passes.h"
#include "support/error.h"

namespace tw::lower {
namespace {

constexpr loop::VerifyRules kNoVectorLoops{.no_vector_loops = true};
constexpr loop::VerifyRules kNoUnrolledLoops{.no_unrolled_loops = true};
constexpr loop::VerifyRules kSimple{.no_inner_div_mod = true, .register_constant_indices = true};
constexpr loop::VerifyRules kNoCalls{.no_elementary_calls = true};

const LoopPass kPipeline[] = {
    {"simplify", simplify, "no loop has extent 0 or 1, no if a known condition", false, {}},
    {"split-guards", split_guards, "guards hold only in the tails of their loops", true, {}},
    {"vectorize", vectorize, "vectors are explicit", false, kNoVectorLoops},
    {"unroll", unroll, "no unrolled loop remains", false, kNoUnrolledLoops},
    {"simplify-copies", simplify, "register buffers have constant indices; no div or mod by inner loops", false,
     kSimple},
    {"expand-functions", expand_functions, "elementary functions are arithmetic", false, kNoCalls},
    {"expand-conversions", expand_conversions, "no conversion from or to f16 and bf16", false, {}},
};

loop::VerifyRules unite(const loop::VerifyRules& a, const loop::VerifyRules& b) {
  return {a.no_vector_loops || b.no_vector_loops, a.no_unrolled_loops || b.no_unrolled_loops,
          a.no_inner_div_mod || b.no_inner_div_mod, a.no_elementary_calls || b.no_elementary_calls,
          a.register_constant_indices || b.register_constant_indices};
}

bool is_disabled(const LoopPass& pass, const RunOptions& options) {
  return std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end();
}

void check_disabled(const RunOptions& options) {
  for (const std::string& name : options.disabled) {
    if (!find_pass(name).optional)
      throw UserError(fmt::format("loop pass {} is required and cannot be disabled", name));
  }
}

void verify_after(std::string_view pass, const loop::Program& program, const loop::VerifyRules& rules) {
  try {
    loop::verify(program, rules);
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("after loop pass {}: {}", pass, error.what()));
  }
}

}  // namespace

std::span<const LoopPass> pipeline() { return kPipeline; }

const LoopPass& find_pass(std::string_view name) {
  std::string known;
  for (const LoopPass& pass : kPipeline) {
    if (pass.name == name) return pass;
    known += fmt::format(" {}", pass.name);
  }
  throw UserError(fmt::format("no loop pass '{}'; there are{}", name, known));
}

loop::Program lower(const loop::Program& program, const RunOptions& options) {
  check_disabled(options);
  loop::Program current = program;
  loop::VerifyRules rules;
  verify_after("schedule", current, rules);
  if (options.dump) options.dump("schedule", current);
  for (const LoopPass& pass : kPipeline) {
    if (is_disabled(pass, options)) continue;
    const auto start = std::chrono::steady_clock::now();
    current = pass.run(current, options.lower);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    if (options.time) options.time(pass.name, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
    rules = unite(rules, pass.rules);
    if (options.lower.inner_division == LowerOptions::InnerDivision::kAllowed) rules.no_inner_div_mod = false;
    verify_after(pass.name, current, rules);
    if (options.dump) options.dump(pass.name, current);
    if (pass.name == options.stop_after) break;
  }
  return current;
}

}  // namespace tw::lower
