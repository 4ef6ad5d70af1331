#include "driver/hal/peak.h"

#include "support/error.h"
#ifdef TW_HAVE_LLVM
#include <algorithm>

#include "driver/hal/bench.h"
#endif

namespace tw::driver::hal {

#ifdef TW_HAVE_LLVM
double measure_fma_peak(const TargetInfo& target, int threads) {
  constexpr int kSamples = 80;
  constexpr int64_t kSampleNs = 200'000;
  const Bench bench(target, Kernels::kFmaOnly);
  runtime::ThreadPool pool(std::min(threads, runtime::affinity_cpus()));
  std::vector<Work> works;
  for (int t = 0; t < pool.size(); ++t) works.push_back(bench.fma(target.vector_bytes));
  std::vector<double> together, alone;
  for (int s = 0; s < kSamples; ++s) {
    together.push_back(rate_together(pool, works, kSampleNs));
    alone.push_back(rate_alone(works[0], kSampleNs));
  }
  const double peak = best_decile(together, Better::kHigher);
  return peak > 0 ? peak : best_decile(alone, Better::kHigher) * pool.size();
}
#else
double measure_fma_peak(const TargetInfo& target, int) {
  throw Unsupported("measuring " + target.name + " needs LLVM");
}
#endif

}  // namespace tw::driver::hal
