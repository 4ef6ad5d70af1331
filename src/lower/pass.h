// Loop passes: each is a row of the table in pipeline.cpp, run by one runner that disables, times, verifies and dumps.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"

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

/// What the runner does around each pass.
struct RunOptions {
  LowerOptions lower;
  std::vector<std::string> disabled;  // optional passes to leave out; UserError on a required or unknown one
  std::string stop_after;             // name of the last pass to run; empty: all
  /// Called with the pass name and the program after it; the name of the first call is "schedule" (the input).
  std::function<void(std::string_view pass, const loop::Program& program)> dump;
  /// Called with the pass name and its duration in nanoseconds.
  std::function<void(std::string_view pass, int64_t nanoseconds)> time;
};

/// Runs the pipeline; verifies after every pass. Throws InternalError naming the pass after which a rule is broken.
loop::Program lower(const loop::Program& program, const RunOptions& options);

/// The row named `name`; UserError listing all names when there is none.
const LoopPass& find_pass(std::string_view name);

}  // namespace tw::lower
