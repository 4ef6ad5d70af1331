// Which candidate of a group is the best one, by measuring: machine code for all of them, a worker process that runs
// them, results in the plan. This is what happens when; what happens is in shortlist.h, prepared_task.h,
// task_measurer.h and task_results.h, each of which knows those before it at most.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "database/database.h"
#include "driver/tune/task_measurer.h"
#include "driver/tune/tuner_options.h"

namespace tw::driver {

class Tuner {
 public:
  explicit Tuner(TunerOptions options);
  /// With a measurer of the caller's.
  Tuner(TunerOptions options, std::unique_ptr<measure::Measurer> measurer);
  Tuner(const Tuner&) = delete;  // its parts refer to its options
  /// Decides every task that has several candidates and takes long enough: from the database where it knows them all,
  /// otherwise by measuring, those that take long first, until the budget is spent.
  std::vector<TuneResult> choose(std::span<const TuneTask> tasks, const TuneContext& context);
  /// Whether everything was measured that should have been.
  bool complete() const { return complete_; }
  const Profiling& profiling() const { return profiling_; }
  /// Machine code of a candidate that was chosen by measuring here; null for other programs. What was measured for
  /// an equal group of another name is null too, where functions are named after groups: code does not depend on
  /// whether it was measured.
  const ProgramCode* find_code(const loop::Program& program, const std::string& group) const;

 private:
  class Session;
  database::Database* open_database();  // null: there is none

  TunerOptions options_;
  TaskMeasurer measurer_;
  std::unique_ptr<database::Database> database_;
  bool opened_ = false;  // the database, or tried to
  bool complete_ = true;
  std::map<std::string, ProgramCode> codes_;  // by the text of the loop program
  Profiling profiling_;
};

}  // namespace tw::driver
