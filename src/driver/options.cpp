#include "driver/options.h"

#include <limits>

#include "driver/code/generate.h"
#include "measure/libraries.h"

namespace tw::driver {

bool is_measured(const CompileOptions& options) {
  return !options.no_measure && !(options.tuning.worker.empty() && options.tuning.database.empty());
}

void start_watch(CompileOptions& options) {
  options.watch = std::make_shared<WorkWatch>(options.limits);
  for (frontend::ImportOptions& import : options.imports) import.watch = options.watch;
}

void settle(CompileOptions& options) {
  TunerOptions& tuning = options.tuning;
  if (options.no_measure && (tuning.explore.count > 0 || tuning.measure_all))
    throw UsageError("--explore and --measure-all measure: they do not go with --no-measure");
  if (options.no_measure && options.layouts == LayoutUse::kMeasured)
    throw UsageError("--layouts measured does not go with --no-measure");
  if (options.no_measure) {
    tuning.worker.clear();
    tuning.database.clear();
  }
  if (tuning.measure_all) {
    tuning.light_us = tuning.whole_share = 0;
    tuning.drop_ratio = std::numeric_limits<double>::infinity();
  }
}

construct::Libraries usable_libraries(const CompileOptions& options, const TargetInfo& target) {
  const bool joins = options.libraries == LibraryUse::kAuto && is_measured(options) && !options.tuning.worker.empty() &&
                     options.plan_text.empty();
  if (!joins || target.kind != DeviceKind::kCuda) return {};
  return measure::find_libraries(architecture(target));
}

}  // namespace tw::driver
