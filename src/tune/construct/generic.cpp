#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {

Result<Candidates> construct_generic(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program =
      schedule::inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  for (const te::Compute& c : program.computes) {
    if (c.is_reduction()) {
      schedule_reduction(out.schedule, c, target);
    } else {
      schedule_elementwise(out.schedule, program, c, target);
    }
  }
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
