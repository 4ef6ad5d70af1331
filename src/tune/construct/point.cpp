// One tile for each point of a stage: the plainest mapping on devices whose tiles are threads.
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

// The only stage that reads `name` at its own point, or null.
const te::Compute* point_reader(const te::Program& program, const std::string& name) {
  const te::Compute* reader = nullptr;
  for (const te::Compute& c : program.computes) {
    if (te::count_reads(c, name) == 0) continue;
    if (reader != nullptr || c.is_reduction() || !te::reads_own_point(c, name)) return nullptr;
    reader = &c;
  }
  return reader;
}

}  // namespace

Result<Candidates> construct_point(const GroupTask& task, const TargetInfo&) {
  Construction out;
  const te::Program program =
      schedule::inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  for (const te::Compute& c : program.computes) {
    const te::Compute* reader =
        c.is_reduction() && !program.is_output(c.name()) ? point_reader(program, c.name()) : nullptr;
    if (reader != nullptr && !c.axes.empty()) {
      out.schedule.compute_at(c.name(), reader->name(), reader->axes.back().name, loop::Scope::kStack);
    }
    if (reader == nullptr && !c.axes.empty()) out.schedule.parallel(c.name(), axis_names(c.axes));
  }
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
