// The measurer that uses a worker process.
#pragma once

#include "measure/measurer.h"
#include "measure/worker_client.h"

namespace tw::measure {

class WorkerMeasurer : public Measurer {
 public:
  explicit WorkerMeasurer(WorkerOptions options) : options_(std::move(options)), worker_(options_.command) {}
  std::vector<Measured> measure(std::span<const Workload> workloads, const MeasureOptions& options) override;
  RunOnce run(const Workload& workload, int threads) override;
  /// Whether a worker can be had at all; starts it. The reason otherwise.
  Result<int> available();

 private:
  WorkerOptions options_;
  WorkerClient worker_;
};

}  // namespace tw::measure
