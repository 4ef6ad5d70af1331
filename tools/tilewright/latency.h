// Times of many runs.
#pragma once
#include <cstddef>
#include <vector>

#include "artefact/session.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// Times in ms of the runs of what `session` has bound, sorted, by the protocol of bench: --warm-up, --duration,
/// --iterations.
std::vector<double> measure_latency(artefact::Session& session, const VerbOptions& options);

/// Of sorted times; between two of them in proportion.
double percentile(const std::vector<double>& sorted, double p);

/// How many runs of this length are measured in a row.
size_t runs_in_a_row(double run_ms);

}  // namespace tw::cli
