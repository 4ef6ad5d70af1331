#include "measure/worker_measurer.h"

#include "measure/tournament.h"

namespace tw::measure {

std::vector<Measured> WorkerMeasurer::measure(std::span<const Workload> workloads, const MeasureOptions& options) {
  return Tournament(workloads, options, options_, worker_).run();
}

RunOnce WorkerMeasurer::run(const Workload& workload, int threads) {
  RunOnce out;
  MeasureOptions options;
  options.threads = threads;
  options.samples = 0;
  options.check = [&](size_t, const Samples& samples) {
    out.samples = samples;
    return std::string();
  };
  const Measured measured = Tournament({&workload, 1}, options, options_, worker_).run()[0];
  out.outcome = measured.outcome;
  out.reason = measured.reason;
  return out;
}

Result<int> WorkerMeasurer::available() {
  if (worker_.start()) return worker_.threads();
  return declined("{}", worker_.why());
}

}  // namespace tw::measure
