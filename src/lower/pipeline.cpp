#include "lower/passes.h"

namespace tw::lower {
namespace {

constexpr loop::VerifyRules kNoVectorLoops{.no_vector_loops = true};
constexpr loop::VerifyRules kNoUnrolledLoops{.no_unrolled_loops = true};
constexpr loop::VerifyRules kSimple{.inner_divisor = 1, .register_constant_indices = true};
constexpr loop::VerifyRules kNoCalls{.no_elementary_calls = true};

const LoopPass kPasses[] = {
    {"simplify", simplify, "no loop has extent 0 or 1, no if a known condition", false},
    {"split-guards", split_guards, "guards hold only in the tails of their loops", true},
    {"single-turns", single_turns, "no loop looks for the turn of a computed index", true},
    {"part-masks", part_masks, "threads select only in turns in which a mask leaves something out", true},
    {"vectorize", vectorize, "vectors are explicit", false, kNoVectorLoops},
    {"unroll", unroll, "no unrolled loop remains", false, kNoUnrolledLoops},
    {"simplify-copies", simplify, "register buffers have constant indices; no div or mod by inner loops", false,
     kSimple},
    {"split-products", split_products, "sums of products are fused only where the target does that", false},
    {"expand-functions", expand_functions, "elementary functions are arithmetic", false, kNoCalls},
    {"expand-conversions", expand_conversions, "no conversion from or to f16 and bf16 that the target lacks", false},
    {"expand-missing", expand_missing, "no operation that the target has no instruction for", false},
};

const Pipeline<LoopPass> kLoopPipeline{kPasses, "loop pass", "schedule"};

loop::VerifyRules unite(const loop::VerifyRules& a, const loop::VerifyRules& b) {
  return {a.no_vector_loops || b.no_vector_loops, a.no_unrolled_loops || b.no_unrolled_loops,
          b.inner_divisor != 0 ? b.inner_divisor : a.inner_divisor, a.no_elementary_calls || b.no_elementary_calls,
          a.register_constant_indices || b.register_constant_indices};
}

}  // namespace

std::span<const LoopPass> pipeline() { return kPasses; }

const LoopPass& find_pass(std::string_view name) { return find_row(kLoopPipeline, name); }

loop::Program lower(const loop::Program& program, const RunOptions& options) {
  loop::VerifyRules rules;
  const auto run = [&](const LoopPass& pass, const loop::Program& current) {
    rules = unite(rules, pass.rules);
    if (pass.rules.inner_divisor != 0) rules.inner_divisor = options.lower.inner_divisor;
    return pass.run(current, options.lower);
  };
  const auto check = [&](const loop::Program& current) { loop::verify(current, rules); };
  return run_passes(kLoopPipeline, program, options, run, check);
}

}  // namespace tw::lower
