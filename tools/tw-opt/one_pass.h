// One pass of the compiler on the text form of its IR.
#pragma once
#include <string>
#include <string_view>

namespace tw::opt {

struct Options {
  std::string pass;                      // of the graph or the loop pipeline, "te" or "schedule"
  std::string schedule;                  // text of the schedule; of pass "schedule" only
  std::string target = "cpu:x86-64-v4";  // fixed, so that the result does not depend on this machine
  std::string dtype = "f32";             // of what is f32 in the graph; of pass "mixed-precision"
  bool zero_constants = false;           // constants whose data the text does not hold are zeros instead of an error
};

/// Runs the pass on `text` (a graph, a loop program, or a te program for "schedule"), verifies before and after, and
/// returns the text of the result; "te" gives the te program of every group of a graph of groups. Errors: UsageError
/// for an unknown pass or target, UserError for text that does not parse or does not verify, InternalError when the
/// pass breaks a rule.
std::string run_one_pass(const Options& options, std::string_view text);

/// A line for every pass: its IR, its name, what holds afterwards, and whether it may be switched off.
std::string list_passes();

}  // namespace tw::opt
