// A task on its way to the measurer: code and workloads of its candidates, and what checks them.
#pragma once
#include <optional>
#include <vector>

#include "driver/tune/candidate.h"
#include "driver/tune/candidate_check.h"
#include "driver/tune/task.h"

namespace tw::driver {

/// Candidates of a task with code; those whose loop programs are equal share a workload.
struct PreparedTask {
  static constexpr size_t kNone = SIZE_MAX;

  std::vector<size_t> candidates;    // of the task: those that are to be measured
  std::vector<CandidateCode> codes;  // of each of them
  std::vector<measure::Workload> workloads;
  std::vector<size_t> workload_of;   // of each candidate; kNone: it was declined
  std::vector<size_t> candidate_of;  // of each workload: the first in `candidates` that has it
  std::optional<Result<CandidateCheck>> check;

  bool is_mainloop_only(size_t i) const { return codes[i].code.is_mainloop_only; }
};

/// Makes code of these candidates with `threads` threads, instead of those that the context names. Throws Stopped once
/// the context's cubins are stopped.
PreparedTask prepare_task(const TuneTask& task, std::vector<size_t> candidates, const TuneContext& context,
                          int threads);

}  // namespace tw::driver
