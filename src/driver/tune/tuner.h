// Which candidate of a group is the best one, by measuring: machine code for all of them, a worker process that runs
// them, results in the plan.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "database/database.h"
#include "driver/tune/task.h"
#include "driver/tune/tuner_options.h"

namespace tw::driver {

class Tuner {
 public:
  explicit Tuner(TunerOptions options);
  /// With a measurer of the caller's.
  Tuner(TunerOptions options, std::unique_ptr<measure::Measurer> measurer);
  ~Tuner();
  /// Decides every task that has several candidates and takes long enough: from the database where it knows them all,
  /// otherwise by measuring, those that take long first, until the budget is spent.
  std::vector<TuneResult> choose(std::span<const TuneTask> tasks, const TuneContext& context);
  /// Whether everything was measured that should have been.
  bool complete() const { return complete_; }
  /// Machine code of a candidate that was chosen by measuring here; null for other programs.
  const ProgramCode* find_code(const loop::Program& program) const;

 private:
  class Session;
  bool start(const TargetInfo& target);
  std::string why_not_started(const TargetInfo& target);
  const Result<std::string>& device(const TargetInfo& target);
  void open_database();

  TunerOptions options_;
  bool tried_ = false;   // to start a worker
  bool opened_ = false;  // the database, or tried to
  bool complete_ = true;
  bool told_of_waiting_ = false;              // for another compiler that measures
  bool told_of_disturbance_ = false;          // that it measures at the same time
  std::map<std::string, ProgramCode> codes_;  // by the text of the loop program
  std::unique_ptr<database::Database> database_;
  std::string lock_file_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::optional<Result<std::string>> device_;  // asked for once
  double spent_seconds_ = 0;
};

/// Where the constants of a model of `bytes` constants are when they are needed again in the next run: in the private
/// caches, in the shared one, or in memory.
measure::Warmth warmth_of_weights(double bytes, const TargetInfo& target);

/// Nanoseconds that `program` takes at least on `target`: its flop at peak, or its inputs and outputs at the bandwidth
/// of memory. A rough figure: it only says what is worth measuring.
double estimate_ns(const te::Program& program, const TargetInfo& target);

}  // namespace tw::driver
