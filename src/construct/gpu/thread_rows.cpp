// Rows of few elements on GPUs: each thread computes some of them, all stages of each, in its registers. Softmax of ten
// classes, products of a few numbers one after the other.
#include "construct/construct.h"
#include "construct/elementwise.h"
#include "cost/gpu_rows.h"
#include "schedule/match/stages.h"
#include "support/join.h"

namespace tw::construct {
namespace {

constexpr int64_t kMaxThreads = 128;  // of a block

std::vector<std::string> names_behind(const te::Compute& c, size_t rows) {
  std::vector<std::string> names;
  for (size_t d = rows; d < c.axes.size(); ++d) names.push_back(c.axes[d].name);
  return joined(names, te::axis_names(c.reduce_axes));
}

}  // namespace

Result<Candidates> construct_thread_rows(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const Result<schedule::RowProgram> rows = schedule::row_program(out.schedule, task.program);
  if (!rows.ok()) return Reason{rows.reason()};
  if (const std::string reason = schedule::why_not_by_thread(*rows); !reason.empty()) return declined("{}", reason);
  const te::Program& program = rows->program;
  const te::Compute& output = program.computes.back();
  schedule::Schedule& s = out.schedule;
  const std::vector<te::Axis> axes(output.axes.begin(), output.axes.begin() + static_cast<ptrdiff_t>(rows->rows));
  const int64_t count = te::num_points(axes);
  const int64_t threads = threads_for(count, kMaxThreads, target);
  const std::string thread = map_to_threads(s, output.name(), te::axis_names(axes), threads);
  for (const std::string& loop : names_behind(output, rows->rows)) s.unroll(output.name(), loop);
  for (auto c = program.computes.rbegin() + 1; c != program.computes.rend(); ++c) {
    s.compute_at(c->name(), output.name(), thread, loop::Scope::kRegister);
    for (const std::string& loop : names_behind(*c, rows->rows)) s.unroll(c->name(), loop);
  }
  out.predicted_ns = cost::thread_rows_ns(*rows, count, target);
  out.trace = {fmt::format("{} rows by a thread each, {} of a block", count, threads)};
  return Candidates{std::move(out)};
}

}  // namespace tw::construct
