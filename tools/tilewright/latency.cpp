#include "tilewright/latency.h"

#include <algorithm>

namespace tw::cli {
namespace {

constexpr size_t kMaxRow = 100;

}  // namespace

double percentile(const std::vector<double>& sorted, double p) {
  const double at = p / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

size_t runs_in_a_row(double run_ms, double row_ms) {
  return std::clamp(static_cast<size_t>(row_ms / std::max(run_ms, row_ms / kMaxRow)), size_t{1}, kMaxRow);
}

}  // namespace tw::cli
