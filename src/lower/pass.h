// Loop passes: each is a row of the table in pipeline.cpp, run by one runner that disables, times, verifies and dumps.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "expr/expand.h"
#include "loop/loop.h"
#include "support/pass_runner.h"

namespace tw::lower {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;

/// What a pass may ask of the target.
struct LowerOptions {
  int vector_bytes = 64;  // widest vector register
  /// A number that all divisors of the maths divide (te::common_divisor): where no split makes an index linear, a
  /// division of the maths may stay in an innermost loop. Layouts and schedules alone must not bring one there.
  int64_t inner_divisor = 1;
  Instructions has = {};
};

struct LoopPass {
  std::string_view name;
  loop::Program (*run)(const loop::Program& program, const LowerOptions& options);
  std::string_view holds;        // what is true afterwards
  bool optional;                 // may be switched off
  loop::VerifyRules rules = {};  // the same, for the verifier; rules of earlier rows stay in force
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
