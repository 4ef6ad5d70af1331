#include "construct/construct.h"
#include "construct/elementwise.h"

namespace tw::construct {

Result<Candidates> construct_generic(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program = schedule::inline_stages(out.schedule, task.program);
  for (const Stages& stages : root_stages(program)) schedule_stage(out.schedule, program, stages, target);
  return Candidates{std::move(out)};
}

}  // namespace tw::construct
