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

#include "driver/candidate.h"
#include "driver/generate.h"
#include "driver/tuner_options.h"
#include "tune/database/database.h"

namespace tw::driver {

/// One te program with what may compute it.
struct TuneTask {
  std::string name;  // of the first group that needs it
  te::Program program;
  std::set<std::string> constants;
  std::vector<plan::GroupPlan> candidates;  // best predicted first, at least one
  int64_t uses = 1;                         // groups that need it; 0: only its time is wanted
  size_t joined = 0;                        // of the candidates, the last ones: they always race
  bool is_timed = false;                    // measured however light it is, and however few candidates it has
};

struct TuneResult {
  int64_t best = 0;                      // in TuneTask::candidates; -1: all of them are quarantined
  std::vector<tune::Measured> measured;  // of each candidate, now or earlier; empty: nothing is known
};

struct TuneContext {
  const TargetInfo& target;
  const GroupOptions& group;
  CodeTools tools;
  tune::Warmth weights = tune::Warmth::kFlushed;  // where constants are when a group of this model runs
  std::function<void(int64_t done, int64_t total)> progress;
  std::string device = {};  // the GPU's name, found by the tuner; empty: a CPU, or no such GPU here
};

class Tuner {
 public:
  explicit Tuner(TunerOptions options);
  /// With a measurer of the caller's.
  Tuner(TunerOptions options, std::unique_ptr<tune::Measurer> measurer);
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
  bool told_of_disturbance_ = false;          // that another compiler measures at the same time
  std::map<std::string, ProgramCode> codes_;  // by the text of the loop program
  std::unique_ptr<tune::Database> database_;
  std::string lock_file_;
  std::unique_ptr<tune::Measurer> measurer_;
  std::optional<Result<std::string>> device_;  // asked for once
  double spent_seconds_ = 0;
};

/// Where the constants of a model of `bytes` constants are when they are needed again in the next run: in the private
/// caches, in the shared one, or in memory.
tune::Warmth warmth_of_weights(double bytes, const TargetInfo& target);

/// Nanoseconds that `program` takes at least on `target`: its flop at peak, or its inputs and outputs at the bandwidth
/// of memory. A rough figure: it only says what is worth measuring.
double estimate_ns(const te::Program& program, const TargetInfo& target);

}  // namespace tw::driver
