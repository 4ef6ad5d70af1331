// One tile for each point of a stage: the plainest mapping on devices whose tiles are threads.
#include <map>
#include <set>

#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

using Readers = std::map<std::string, std::set<const te::Compute*>>;  // of every tensor

Readers readers_of(const te::Program& program) {
  Readers readers;
  for (const te::Compute& c : program.computes)
    te::visit_reads(c, [&](const Expr& read) { readers[read->name].insert(&c); });
  return readers;
}

// The only stage that reads `name` at its own point, or null.
const te::Compute* point_reader(const Readers& readers, const std::string& name) {
  const auto found = readers.find(name);
  if (found == readers.end() || found->second.size() != 1) return nullptr;
  const te::Compute* reader = *found->second.begin();
  return reader->is_reduction() || !te::reads_own_point(*reader, name) ? nullptr : reader;
}

}  // namespace

Result<Candidates> construct_point(const GroupTask& task, const TargetInfo&) {
  Construction out;
  const te::Program program =
      schedule::inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  const Readers readers = readers_of(program);
  for (const te::Compute& c : program.computes) {
    const te::Compute* reader =
        c.is_reduction() && !program.is_output(c.name()) ? point_reader(readers, c.name()) : nullptr;
    if (reader != nullptr && !c.axes.empty()) {
      out.schedule.compute_at(c.name(), reader->name(), reader->axes.back().name, loop::Scope::kStack);
    }
    if (reader == nullptr && !c.axes.empty()) out.schedule.parallel(c.name(), axis_names(c.axes));
  }
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
