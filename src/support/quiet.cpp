#include "support/quiet.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

namespace tw {
namespace {

constexpr int kBlocks = 5000;  // of kBlockSize instructions: about 35 us at ten a nanosecond
constexpr int kBlockSize = 64;
constexpr double kQuietShare = 0.8;  // of the usual rate; a busy sibling leaves about half

double probe_rate() {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kBlocks; ++i) __asm__ volatile(".rept 64\n\tnop\n\t.endr");
  const auto elapsed = std::chrono::steady_clock::now() - start;
  return kBlocks * kBlockSize / std::max(1.0, std::chrono::duration<double, std::nano>(elapsed).count());
}

long involuntary_switches(QuietWatch::Switches counted) {
  rusage usage = {};
  getrusage(counted == QuietWatch::Switches::kOfThread ? RUSAGE_THREAD : RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

void QuietWatch::start() {
  before_ = probe_rate();
  switches_ = involuntary_switches(counted_);
}

bool QuietWatch::stop() {
  const bool undisturbed = involuntary_switches(counted_) == switches_;
  const double after = probe_rate();
  fastest_ = std::max({fastest_, before_, after});
  return undisturbed && std::min(before_, after) >= kQuietShare * fastest_;
}

}  // namespace tw
