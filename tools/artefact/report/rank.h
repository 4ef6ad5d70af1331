// How well one number orders what another one measures. Private to the report.
#pragma once
#include <vector>

namespace tw::artefact::report {

/// Spearman's rank correlation of pairs: 1 equal orders, 0 none, -1 the opposite; equal values share their mean rank.
/// NaN for fewer than 3 pairs, or where one side is all equal.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tw::artefact::report
