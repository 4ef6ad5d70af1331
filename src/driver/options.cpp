#include "driver/options.h"

#include "driver/code/generate.h"
#include "measure/libraries.h"

namespace tw::driver {

construct::Libraries usable_libraries(const CompileOptions& options, const TargetInfo& target) {
  const bool race =
      options.libraries == Libraries::kAuto && !options.tuning.worker.empty() && options.plan_text.empty();
  if (!race || target.kind != DeviceKind::kCuda) return {};
  return measure::find_libraries(architecture(target));
}

}  // namespace tw::driver
