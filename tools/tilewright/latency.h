// Times of many runs.
#pragma once
#include <cstddef>
#include <vector>

#include "artefact/session.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

struct Times {
  std::vector<double> ms;  // sorted
  double quiet_share = 1;  // of the runs: in rows that nothing seems to have disturbed; 1 on a GPU, which has its own
};

/// Times of the runs of what `session` has bound, by the protocol of bench: --warm-up, --duration, --iterations.
Times measure_latency(artefact::Session& session, const VerbOptions& options);

// Time of runs that are measured in a row. Long: beside what begins and ends a row, on a GPU copies from and to the
// host. Short: beside the time between two disturbances.
inline constexpr double kLongRowMs = 50, kShortRowMs = 4;

/// How many runs of this length fit such a row, at least 1.
size_t runs_in_a_row(double run_ms, double row_ms);

/// Of sorted times; between two of them in proportion.
double percentile(const std::vector<double>& sorted, double p);

}  // namespace tw::cli
