// All candidates of one group against each other on one worker, in rounds.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/measurer.h"
#include "measure/worker_client.h"

namespace tw::measure {

class Tournament {
 public:
  Tournament(std::span<const Workload> workloads, const MeasureOptions& options, const WorkerOptions& limits,
             WorkerClient& worker);
  std::vector<Measured> run();

 private:
  struct Entrant {
    Outcome outcome = Outcome::kNotMeasured;
    std::string reason;
    bool active = false;   // measured further
    bool dropped = false;  // measured no further, since it is slow
    bool tried_again = false;
    int generation = -1;  // of the worker that holds it
    double run_ns = 0;    // of a warm run
    std::vector<Sample> samples;
  };

  bool stopped() const { return options_.stop && options_.stop(); }
  bool deserves_another_try(size_t i);
  void admit(size_t i);
  bool load(size_t i);
  void sample_once(size_t i);
  void drop_by_first_run();
  void run_again(size_t i);
  void drop_slow_ones();
  bool settle(size_t i, const Reply& reply);
  double patience(double runs_ns) const;
  Measured result(const Entrant& entrant) const;

  std::span<const Workload> workloads_;
  const MeasureOptions& options_;
  const WorkerOptions& limits_;
  WorkerClient& worker_;
  std::vector<Entrant> entrants_;
  std::optional<size_t> kept_;  // whose outputs the worker has kept to compare others with
};

/// Best decile and median of samples: of the quiet ones when there are enough, otherwise of all.
Timing summarize(std::span<const Sample> samples);

}  // namespace tw::measure
