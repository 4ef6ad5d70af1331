// What is worth measuring: which tasks, in which order, and which candidates of each.
#pragma once
#include <span>
#include <vector>

#include "driver/tune/task.h"
#include "driver/tune/tuner_options.h"

namespace tw::driver {

/// Goes by predictions alone: whatever is measured changes nothing here.
class Shortlist {
 public:
  /// All three outlive the list.
  Shortlist(std::span<const TuneTask> tasks, const TargetInfo& target, const TunerOptions& options);

  /// Tasks worth measuring, the largest share of the model's time first.
  std::vector<size_t> tasks() const;
  /// Whether candidate `candidate` of task `t` is measured, when the task is.
  bool has(size_t t, size_t candidate) const;
  /// Share of the model's time that all uses of task `t` take, at `ns` each.
  double share(size_t t, double ns) const;

 private:
  double weight(const TuneTask& task) const;
  double total_weight(const TuneTask& task) const;
  size_t considered(const TuneTask& task) const;

  std::span<const TuneTask> tasks_;
  const TargetInfo& target_;
  const TunerOptions& options_;
  double total_ns_ = 0;  // of all tasks
};

}  // namespace tw::driver
