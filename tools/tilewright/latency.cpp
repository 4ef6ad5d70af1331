#include "tilewright/latency.h"

#include <algorithm>

#include "support/quiet.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

constexpr size_t kMaxRow = 100;

}  // namespace

size_t runs_in_a_row(double run_ms, double row_ms) {
  return std::clamp(static_cast<size_t>(row_ms / std::max(run_ms, row_ms / kMaxRow)), size_t{1}, kMaxRow);
}

Times measure_latency(artefact::Session& session, const VerbOptions& options) {
  const bool on_gpu = session.is_on_gpu();
  const double warm_until = now_seconds() + options.warm_up_ms / 1e3;
  double last_ms = 0;
  do last_ms = session.measure_bound(1).front();
  while (now_seconds() < warm_until);
  const size_t row = runs_in_a_row(last_ms, on_gpu ? kLongRowMs : kShortRowMs);
  QuietWatch watch(QuietWatch::Switches::kOfProcess);
  Times times;
  size_t quiet = 0;
  const double until = now_seconds() + options.duration_s;
  while (now_seconds() < until || times.ms.size() < static_cast<size_t>(options.iterations)) {
    if (!on_gpu) watch.start();
    const std::vector<double> more = session.measure_bound(row);
    if (on_gpu || watch.stop()) quiet += row;
    times.ms.insert(times.ms.end(), more.begin(), more.end());
  }
  times.quiet_share = static_cast<double>(quiet) / static_cast<double>(times.ms.size());
  std::sort(times.ms.begin(), times.ms.end());
  return times;
}

double percentile(const std::vector<double>& sorted, double p) {
  const double at = p / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace tw::cli
