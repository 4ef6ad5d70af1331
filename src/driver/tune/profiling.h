// What measuring candidates took, to be printed.
#pragma once
#include <atomic>
#include <cstdint>

namespace tw::driver {

/// Texts that NVRTC was given, by any thread: for candidates, and for what their results are compared with.
struct CompilationCounts {
  std::atomic<int64_t> kernels = 0, references = 0;
};

/// Over all groups. Runs of a compiler are counted where it is run.
struct Profiling {
  double seconds = 0;
  double code_seconds = 0;       // of these the device waited for machine code
  double reference_seconds = 0;  // computed what results are compared with
  int64_t candidates = 0;        // kernels that were run
  int64_t groups = 0;            // that were to be measured: the database did not know them
  int64_t groups_left = 0;       // of these: the budget was spent, or somebody interrupted, before their turn ended
  // Between the first candidate and the last one: NVRTC for kernels of ours and for references, nvcc for templates.
  int64_t kernels_compiled = 0, references_compiled = 0, templates_compiled = 0;
  int64_t winners_compiled = 0;  // templates that had won by their kernels without epilogue: afterwards, by nvcc

  Profiling& operator+=(const Profiling& more) {
    seconds += more.seconds, code_seconds += more.code_seconds, reference_seconds += more.reference_seconds;
    candidates += more.candidates, kernels_compiled += more.kernels_compiled;
    references_compiled += more.references_compiled, templates_compiled += more.templates_compiled;
    winners_compiled += more.winners_compiled;
    groups += more.groups, groups_left += more.groups_left;
    return *this;
  }
};

}  // namespace tw::driver
