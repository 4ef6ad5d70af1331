#include "driver/tune/prepared_task.h"

#include "support/join.h"

namespace tw::driver {
namespace {

void make_workloads(const te::Program& program, const std::vector<plan::GroupPlan>& plans, PreparedTask& out) {
  out.workload_of.assign(out.codes.size(), PreparedTask::kNone);
  std::map<std::string, size_t> seen;                  // loop program -> workload
  for (size_t n = 0; n < 2 * out.codes.size(); ++n) {  // mainloop-only kernels last: the first one's outputs are kept
    const size_t i = n % out.codes.size();
    if (!out.codes[i].declined.empty() || out.is_mainloop_only(i) != (n >= out.codes.size())) continue;
    const auto [found, fresh] = seen.try_emplace(loop::to_string(out.codes[i].loops), out.workloads.size());
    out.workload_of[i] = found->second;
    if (!fresh) continue;
    out.workloads.push_back(make_workload(program, plans[i], out.codes[i]));
    out.candidate_of.push_back(i);
  }
}

}  // namespace

PreparedTask prepare_task(const TuneTask& task, std::vector<size_t> candidates, const TuneContext& context,
                          int threads) {
  const std::vector<plan::GroupPlan> plans = mapped(candidates, [&](size_t c) { return task.candidates[c]; });
  const CodeTools tools = {threads, context.tools.cubins, true, &context.counts->kernels};
  PreparedTask out;
  out.candidates = std::move(candidates);
  out.codes = make_candidates(task.program, plans, {context.target, context.group, tools});
  out.check = CandidateCheck::make(task, context);
  make_workloads(task.program, plans, out);
  return out;
}

}  // namespace tw::driver
