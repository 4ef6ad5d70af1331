// Times of many runs.
#pragma once
#include <cstddef>
#include <vector>

namespace tw::cli {

/// Of sorted times; between two of them in proportion.
double percentile(const std::vector<double>& sorted, double p);

// Time of runs that are measured in a row. Long: beside what begins and ends a row, on a GPU copies from and to the
// host. Short: beside the time between two disturbances.
inline constexpr double kLongRowMs = 50, kShortRowMs = 4;

/// How many runs of this length fit such a row, at least 1.
size_t runs_in_a_row(double run_ms, double row_ms);

}  // namespace tw::cli
