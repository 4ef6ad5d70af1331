// What every pass pipeline does around its passes, whatever the IR: look up, disable, run, time, verify, dump, stop.
//
// A row (Pass) has `name`, `holds` and `optional`. The pipelines keep their own rows: they differ in what their
// functions take.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace tw {

template <typename Pass>
struct Pipeline {
  std::span<const Pass> rows;
  std::string_view kind;   // what messages call a row: "loop pass"
  std::string_view input;  // what dumps and messages call the IR before the first row
};

/// What the caller of a pipeline may ask for.
template <typename Ir>
struct PassOptions {
  std::vector<std::string> disabled;  // optional passes to leave out; UsageError on a required or unknown one
  bool all_optional_off = false;
  std::string stop_after;        // name of the last pass to run; empty: all; UsageError when unknown
  std::string start_after = {};  // name of the pass that the input is to be seen as the result of; empty: none has run
  /// Called with the pass name and the IR after it, first with the pipeline's name for its input.
  std::function<void(std::string_view pass, const Ir& ir)> dump;
  /// Called with the pass name and its duration in nanoseconds.
  std::function<void(std::string_view pass, int64_t nanoseconds)> time;
};

/// The row named `name`; UsageError listing all names when there is none.
template <typename Pass>
const Pass& find_row(const Pipeline<Pass>& pipeline, std::string_view name) {
  std::string known;
  for (const Pass& row : pipeline.rows) {
    if (row.name == name) return row;
    known += fmt::format(" {}", row.name);
  }
  throw UsageError("no {} '{}'; there are{}", pipeline.kind, name, known);
}

/// Throws UsageError when an option names an unknown pass, or disables a required one.
template <typename Pass, typename Ir>
void check_pass_options(const Pipeline<Pass>& pipeline, const PassOptions<Ir>& options) {
  for (const std::string& name : options.disabled) {
    if (!find_row(pipeline, name).optional)
      throw UsageError("{} '{}' is required and cannot be disabled", pipeline.kind, name);
  }
  if (!options.stop_after.empty()) find_row(pipeline, options.stop_after);
}

template <typename Pass, typename Ir>
bool is_switched_off(const Pass& pass, const PassOptions<Ir>& options) {
  if (!pass.optional) return false;
  return options.all_optional_off ||
         std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end();
}

/// Runs all rows that are not switched off, up to options.stop_after: run(pass, ir) gives the next IR, check(ir) throws
/// InternalError when it, or the input, is broken; the error gets "after <kind> '<pass>': " in front.
template <typename Pass, typename Ir, typename Run, typename Check>
Ir run_passes(const Pipeline<Pass>& pipeline, Ir ir, const PassOptions<Ir>& options, const Run& run,
              const Check& check) {
  check_pass_options(pipeline, options);
  const auto finish = [&](std::string_view name) {
    try {
      check(ir);
    } catch (const InternalError& error) {
      throw InternalError("after {} '{}': {}", pipeline.kind, name, error.what());
    }
    if (options.dump) options.dump(name, ir);
  };
  bool has_run = !options.start_after.empty();
  if (!has_run) finish(pipeline.input);
  for (const Pass& pass : pipeline.rows) {
    if (has_run) {
      has_run = pass.name != options.start_after;
    } else if (!is_switched_off(pass, options)) {
      const auto start = std::chrono::steady_clock::now();
      ir = run(pass, ir);
      const auto elapsed = std::chrono::steady_clock::now() - start;
      if (options.time) options.time(pass.name, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
      finish(pass.name);
    }
    if (pass.name == options.stop_after) break;
  }
  return ir;
}

}  // namespace tw
