// The measurer that uses a worker process.
#pragma once
#include <memory>

#include "tune/measure/measurer.h"
#include "tune/measure/worker_client.h"

namespace tw::tune {

struct WorkerOptions {
  std::vector<std::string> command;  // that serves: {"/usr/bin/tilewright", "worker"}
  double load_seconds = 30;          // to bring buffers into place; nothing of a candidate runs then
  double run_seconds = 2;            // to run a candidate, besides kPatience times its expected time
};

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

}  // namespace tw::tune
