// Times of many runs.
#pragma once
#include <cstddef>
#include <vector>

namespace tw::cli {

/// Of sorted times; between two of them in proportion.
double percentile(const std::vector<double>& sorted, double p);

/// How many runs of this length are measured in a row.
size_t runs_in_a_row(double run_ms);

}  // namespace tw::cli
