// What every pass pipeline does around its passes, whatever the IR: look up, disable, run, time, verify, dump, stop.
//
// A row (Pass) has `name`, `holds` and `optional`; Options has `disabled`, `stop_after`, `dump` and `time`, and may
// have `all_optional_off`. The pipelines keep their own structs: rows differ in what their functions take.
#pragma once
#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tw {

/// The row named `name`; UserError listing all names when there is none. `kind` is what the error calls a row.
template <typename Pass>
const Pass& find_row(std::span<const Pass> rows, std::string_view name, std::string_view kind) {
  std::string known;
  for (const Pass& row : rows) {
    if (row.name == name) return row;
    known += fmt::format(" {}", row.name);
  }
  throw UsageError(fmt::format("no {} '{}'; there are{}", kind, name, known));
}

/// Throws UserError when an option names an unknown pass, or disables a required one.
template <typename Pass, typename Options>
void check_pass_options(std::span<const Pass> rows, const Options& options, std::string_view kind) {
  for (const std::string& name : options.disabled) {
    if (!find_row(rows, name, kind).optional)
      throw UsageError(fmt::format("{} '{}' is required and cannot be disabled", kind, name));
  }
  if (!options.stop_after.empty()) find_row(rows, options.stop_after, kind);
}

template <typename Pass, typename Options>
bool is_switched_off(const Pass& pass, const Options& options) {
  if (!pass.optional) return false;
  if constexpr (requires { options.all_optional_off; }) {
    if (options.all_optional_off) return true;
  }
  return std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end();
}

/// Calls `check()`; an InternalError gets "after <kind> '<pass>': " in front.
template <typename Check>
void verify_after_pass(std::string_view kind, std::string_view pass, const Check& check) {
  try {
    check();
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("after {} '{}': {}", kind, pass, error.what()));
  }
}

/// Runs all rows that are not switched off, up to options.stop_after: run(pass, ir) gives the next IR, check(pass, ir)
/// throws InternalError when it is broken. The caller verifies and dumps the input itself.
template <typename Pass, typename Ir, typename Options, typename Run, typename Check>
Ir run_passes(std::span<const Pass> rows, Ir ir, const Options& options, std::string_view kind, const Run& run,
              const Check& check) {
  for (const Pass& pass : rows) {
    if (!is_switched_off(pass, options)) {
      const auto start = std::chrono::steady_clock::now();
      ir = run(pass, ir);
      const auto elapsed = std::chrono::steady_clock::now() - start;
      if (options.time) options.time(pass.name, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
      verify_after_pass(kind, pass.name, [&] { check(pass, ir); });
      if (options.dump) options.dump(pass.name, ir);
    }
    if (pass.name == options.stop_after) break;
  }
  return ir;
}

}  // namespace tw
