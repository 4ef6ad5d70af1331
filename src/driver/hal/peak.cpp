#include "driver/hal/peak.h"

#include "support/error.h"
#ifdef TW_HAVE_LLVM
#include "driver/hal/bench.h"
#endif

namespace tw::driver::hal {

#ifdef TW_HAVE_LLVM
double measure_fma_peak(const TargetInfo& target, int threads) {
  constexpr int kSamples = 15;
  constexpr int64_t kSampleNs = 1'000'000;
  const Bench bench(target, Kernels::kFmaOnly);
  std::vector<Work> works;
  for (int t = 0; t < threads; ++t) works.push_back(bench.fma(target.vector_bytes));
  std::vector<double> samples;
  for (int s = 0; s < kSamples; ++s) samples.push_back(rate_together(works, kSampleNs));
  return best_decile(samples, Better::kHigher);
}
#else
double measure_fma_peak(const TargetInfo& target, int) {
  throw Unsupported("measuring " + target.name + " needs LLVM");
}
#endif

}  // namespace tw::driver::hal
