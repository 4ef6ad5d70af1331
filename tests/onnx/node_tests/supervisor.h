// Runs cases in child processes, so that a crash, an endless loop or a failed GPU is the outcome of its case and of no
// other one.
#pragma once
#include <chrono>
#include <functional>
#include <vector>

#include "tests/onnx/node_tests/run_case.h"

namespace tw::conformance {

using CaseRunner = std::function<Outcome(const Case&)>;

struct SupervisorOptions {
  int jobs = 1;  // children at a time
  // A case is broken, and its child killed, after so much processor time, or ten times as long on the clock: a loaded
  // machine makes no test fail.
  std::chrono::milliseconds case_limit{60'000};
};

/// The outcome of every case, in order. `make_runner` is called once in each child, never here: the caller's process
/// only forks and waits, and must have no other threads.
std::vector<Outcome> run_supervised(const std::vector<Case>& cases, const std::function<CaseRunner()>& make_runner,
                                    const SupervisorOptions& options);

}  // namespace tw::conformance
