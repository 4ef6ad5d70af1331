// Loop passes: each is a row of the table in pipeline.cpp, run by one runner that disables, times, verifies and dumps.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "loop/loop.h"
#include "support/pass_runner.h"

namespace tw::lower {

/// What a pass may ask of the target.
struct LowerOptions {
  int vector_bytes = 64;  // widest vector register
  /// Whether an innermost loop may divide by its variable: only index maps that no split makes linear need it.
  enum class InnerDivision : uint8_t { kForbidden, kAllowed } inner_division = InnerDivision::kForbidden;
};

struct LoopPass {
  std::string_view name;
  loop::Program (*run)(const loop::Program& program, const LowerOptions& options);
  std::string_view holds;   // what is true afterwards
  bool optional;            // may be switched off
  loop::VerifyRules rules;  // the same, for the verifier; rules of earlier rows stay in force
};

/// The passes in order.
std::span<const LoopPass> pipeline();

struct RunOptions : PassOptions<loop::Program> {
  LowerOptions lower;
};

/// Runs the pipeline; verifies the input (dumped as "schedule"), and after every pass. Throws InternalError naming the
/// pass after which a rule is broken.
loop::Program lower(const loop::Program& program, const RunOptions& options);

/// The row named `name`; UsageError listing all names when there is none.
const LoopPass& find_pass(std::string_view name);

}  // namespace tw::lower
