#include "schedule/match/one_kernel.h"

#include <algorithm>

#include "schedule/match/column_sums.h"
#include "schedule/match/contraction.h"
#include "schedule/match/row_sums.h"
#include "schedule/match/scatter.h"
#include "schedule/match/stages.h"

namespace tw::schedule {
namespace {

// Whether `owner` has all outputs of `program`.
Result<Beside> has_all_outputs(const te::Program& program, const std::string& owner) {
  const std::vector<te::Tensor>& mine = program.find_compute(owner)->outputs;
  for (const std::string& output : program.outputs) {
    if (std::ranges::find(mine, output, &te::Tensor::name) == mine.end())
      return declined("{} is not at the points of {}", output, owner);
  }
  return Beside::kPoints;
}

Result<Beside> after(const te::Program& program, const te::Compute& reduction) {
  const Result<std::string> output = epilogue_output(program, reduction);
  return output.ok() ? has_all_outputs(program, *output) : Result<Beside>(Reason{output.reason()});
}

}  // namespace

Result<Beside> one_kernel(const te::Program& program, Combines combines) {
  Schedule inlined;
  const te::Program stages = inline_stages(inlined, program);
  const bool reduces = std::ranges::any_of(stages.computes, &te::Compute::is_reduction);
  if (!reduces) {
    if (stages.computes.size() == 1) return has_all_outputs(stages, stages.computes.front().name());
    return declined("{} is computed apart from {}", stages.computes.front().name(), stages.computes.back().name());
  }
  // Rows of sums at computed indices would compare each element with each index again. Points beside them would be
  // apart from others that they share more with, as an optimizer's moments: they read a line in order.
  const auto scatter = std::ranges::find_if(stages.computes, sums_at_indices);
  if (scatter != stages.computes.end()) return declined("{} sums at computed indices", scatter->name());
  const te::Compute* sum = find_contraction(stages);
  const Result<Beside> behind = sum == nullptr ? Result<Beside>(declined("no contraction")) : after(stages, *sum);
  if (behind.ok()) return behind;
  const Result<const te::Compute*> only = only_reduction(stages);
  if (only.ok() && !(*only)->axes.empty() && !reduces_contiguous(**only)) {
    Schedule sums;
    if (match_column_sums(sums, program).ok()) return Beside::kColumns;
    const Result<Beside> beside = after(stages, **only);
    return beside.ok() && (*only)->outputs.size() > 1 ? Result<Beside>(Beside::kSums) : beside;
  }
  Schedule turns;
  if (match_row_sums(turns, program).ok()) return Beside::kRowSums;
  Schedule rows;  // a sum of squares is a sum of products, too
  const Result<RowProgram> found = row_program(rows, program);
  if (!found.ok()) return sum == nullptr ? Reason{found.reason()} : Reason{behind.reason()};
  for (const te::Compute& c : found->program.computes) {
    if (combines == Combines::kRowsAlone && c.is_reduction() && c.axes.size() > found->rows)
      return declined("{} combines rows, and others the elements of what comes of that", c.name());
  }
  return found->statistics.empty() ? Beside::kPoints : Beside::kRows;
}

}  // namespace tw::schedule
