// What is decided by measuring: a te program with its candidates, and what is known of them afterwards.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "driver/code/generate.h"
#include "driver/code/group_code.h"
#include "driver/tune/profiling.h"
#include "measure/measurer.h"

namespace tw::driver {

/// One te program with what may compute it.
struct TuneTask {
  std::string name;  // of the first group that needs it
  te::Program program;
  std::set<std::string> constants;
  std::vector<plan::GroupPlan> candidates;  // best predicted first, at least one
  int64_t uses = 1;                         // groups that need it; 0: only its time is wanted
  size_t joined = 0;                        // of the candidates, the last ones: they are always measured
  /// Its own candidates, which lie before the joined ones, are measured only where none of these may be used: the
  /// caller switched off the families that would compute it well.
  bool owner_waits = false;
  bool is_timed = false;  // measured however light it is, and however few candidates it has
};

struct TuneResult {
  int64_t best = 0;                         // in TuneTask::candidates; -1: all of them are quarantined
  std::vector<measure::Measured> measured;  // of each candidate, now or earlier; empty: nothing is known
};

struct TuneContext {
  const TargetInfo& target;
  const GroupOptions& group;
  CodeTools tools;
  measure::CacheState weights = measure::CacheState::kCold;  // where constants are when a group of this model runs
  std::function<void(int64_t done, int64_t total)> progress;
  std::shared_ptr<CompilationCounts> counts = std::make_shared<CompilationCounts>();
  std::string device = {};  // the GPU's name, found by the tuner; empty: a CPU, or no such GPU here
};

}  // namespace tw::driver
