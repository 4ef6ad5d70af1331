#include "driver/machine/measure.h"
#include "support/error.h"
#ifdef TW_HAVE_LLVM
#include <algorithm>

#include "driver/machine/bench.h"
#include "runtime/thread_pool.h"
#endif

namespace tw::driver::machine {

#ifdef TW_HAVE_LLVM
double measure_fma_peak(const TargetInfo& target, int threads) {
  constexpr int kSamples = 80;
  constexpr int64_t kSampleNs = 200'000;
  const Bench bench(target, Kernels::kFmaOnly);
  const int at_once = std::min(threads, runtime::affinity_cpus());
  std::vector<Work> works;
  for (int t = 0; t < at_once; ++t) works.push_back(bench.fma(target.vector_bytes));
  std::vector<double> together, alone;
  for (int s = 0; s < kSamples; ++s) {
    together.push_back(rate_together(works, kSampleNs));
    alone.push_back(rate_alone(works[0], kSampleNs));
  }
  const double peak = best_decile(together, Better::kHigher);
  return peak > 0 ? peak : best_decile(alone, Better::kHigher) * at_once;
}
#else
double measure_fma_peak(const TargetInfo& target, int) {
  throw Unsupported("measuring " + target.name + " needs LLVM");
}
#endif

}  // namespace tw::driver::machine
