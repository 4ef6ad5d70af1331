// Runs cases in child processes, so that a crash, an endless loop or a failed GPU is the outcome of its case and of no
// other one.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/onnx/node_tests/run_case.h"

namespace tw::conformance {

using CaseRunner = std::function<Outcome(const Case&)>;

struct Progress {
  size_t done = 0;
  std::chrono::milliseconds elapsed{0};
  std::string oldest;  // of the cases at work, the one that began first
};

struct SupervisorOptions {
  int jobs = 1;  // children at a time
  // A case is broken, and its child killed, after so much processor time, or ten times as long on the clock: a loaded
  // machine makes no test fail.
  std::chrono::milliseconds case_limit{60'000};
  // Afterwards no case is begun; those that were not are kNotRun.
  std::optional<std::chrono::milliseconds> time_limit = {};
  // Both called in the caller's process: with the index and outcome of each case as it ends, and from time to time.
  std::function<void(size_t, const Outcome&)> on_outcome = {};
  std::function<void(const Progress&)> on_progress = {};
  std::chrono::milliseconds progress_period{5'000};
};

/// The outcome of every case, in order. `make_runner` is called once in each child, never here: the caller's process
/// only forks and waits, and must have no other threads.
std::vector<Outcome> run_supervised(const std::vector<Case>& cases, const std::function<CaseRunner()>& make_runner,
                                    const SupervisorOptions& options);

}  // namespace tw::conformance
