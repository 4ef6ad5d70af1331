// What is told of a compilation besides its artefact, to people and to programs.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "driver/compile_cache.h"

namespace tw::driver {

struct CompileOutcome {
  CompileSummary summary = {};
  std::vector<PassTime> times = {};  // none when it was in the cache
  bool cached = false;
  bool complete = true;  // all was measured that should have been
  Padding padding = {};
  Profiling profiling = {};  // none when it was in the cache
};
/// Also of a compilation that stopped before there was an artefact: it has times and warnings.
CompileOutcome outcome_of(const Compiled& compiled);

nlohmann::ordered_json to_json(const Profiling& profiling);
/// TwCompilerApi::compilation_report (tilewright/compiler.h) says what is in it.
nlohmann::ordered_json to_json(const CompileOutcome& outcome);

}  // namespace tw::driver
