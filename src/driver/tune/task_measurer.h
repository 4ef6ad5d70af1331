// Candidates of a task run: in a worker process, checked against the reference, undisturbed by other compilers here.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/tune/prepared_task.h"
#include "driver/tune/tuner_options.h"
#include "support/file_lock.h"

namespace tw::driver {

class TaskMeasurer {
 public:
  using Stop = std::function<bool()>;

  /// `options` outlive it. `measurer`: the caller's; null: start() gets a worker.
  TaskMeasurer(const TunerOptions& options, std::unique_ptr<measure::Measurer> measurer);

  /// Whether there is a worker for `target`. Tried once: says why not.
  bool start(const TargetInfo& target);
  /// The GPU that candidates for `target` run on; an empty name for a CPU.
  const Result<std::string>& device(const TargetInfo& target);
  /// Compilers that name the same file measure one after the other.
  void take_turns_by(std::string lock_file) { lock_file_ = std::move(lock_file); }

  /// Our turn, until what this returns is gone. Waits for a while; measuring goes on without it after that.
  std::unique_ptr<FileLock> take_turn(const Stop& stop);
  /// Measures the workloads of `prepared`, which get their inputs. Declines without a reference, or where it fails.
  /// Pre: start().
  Result<std::vector<measure::Measured>> measure(const TuneTask& task, PreparedTask& prepared,
                                                 const TuneContext& context, const Stop& stop);
  /// What references took, of all measure().
  double reference_seconds() const { return reference_seconds_; }

 private:
  std::string why_not_started(const TargetInfo& target);
  void notice(const std::string& text) const;

  const TunerOptions& options_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::optional<Result<std::string>> device_;  // asked for once
  std::string lock_file_;
  double reference_seconds_ = 0;
  bool tried_ = false;                // to start a worker
  bool told_of_waiting_ = false;      // for another compiler that measures
  bool told_of_disturbance_ = false;  // that it measures at the same time
};

/// Where the constants of a model of `bytes` constants are when they are needed again in the next run: in the private
/// caches, in the shared one, or in memory.
measure::CacheState cache_state_of_weights(double bytes, const TargetInfo& target);

}  // namespace tw::driver
