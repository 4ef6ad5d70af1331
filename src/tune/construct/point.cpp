// One tile for each point of a stage: the plainest mapping on devices whose tiles are threads.
#include <algorithm>

#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

std::vector<std::string> axis_names(const te::Compute& c) {
  std::vector<std::string> names;
  for (const te::Axis& axis : c.axes) names.push_back(axis.name);
  return names;
}

// The only stage that reads `name` at its own point, or null.
const te::Compute* point_reader(const te::Program& program, const std::string& name) {
  const te::Compute* reader = nullptr;
  for (const te::Compute& c : program.computes) {
    bool reads = false;
    bool own = true;
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) {
        if (e.op() != Op::kLoad || e->name != name) return;
        reads = true;
        own = own && e->args.size() == c.axes.size();
        for (size_t d = 0; own && d < e->args.size(); ++d) own = e.arg(d).is_var() && e.arg(d)->name == c.axes[d].name;
      });
    }
    if (!reads) continue;
    if (reader != nullptr || !own || c.is_reduction()) return nullptr;
    reader = &c;
  }
  return reader;
}

}  // namespace

Result<Construction> construct_point(const GroupTask& task, const TargetInfo&) {
  Construction out;
  const te::Program program = inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  for (const te::Compute& c : program.computes) {
    const te::Compute* reader =
        c.is_reduction() && !program.is_output(c.name()) ? point_reader(program, c.name()) : nullptr;
    if (reader != nullptr && !c.axes.empty()) {
      out.schedule.compute_at(c.name(), reader->name(), reader->axes.back().name, loop::Scope::kStack);
    }
    if (reader == nullptr && !c.axes.empty()) out.schedule.parallel(c.name(), axis_names(c));
  }
  return out;
}

}  // namespace tw::tune
