// Reductions along rows: softmax, layer norm, and every chain of reductions and element-wise stages whose stages share
// their leading axes with the output. One tile is one row or a few; all intermediate stages live in the tile.

#include "construct/column_sums.h"
#include "construct/cpu/row_loops.h"
#include "schedule/match/stages.h"

namespace tw::construct {
namespace {

// All elements in one number: parts of them as rows, and what these leave.
Result<Candidates> construct_total(const GroupTask& task, const TargetInfo& target) {
  constexpr int64_t kMaxParts = 64, kPartElements = 4096;
  Construction base;
  const Result<schedule::Total> found = schedule::match_total(base.schedule, task.program);
  if (!found.ok()) return Reason{found.reason()};
  if (found->elements < kPartElements) return declined("few elements");
  const int64_t parts = part_counts(found->elements, std::min(kMaxParts, found->elements / kPartElements), 1).front();
  schedule::Schedule split;
  for (const std::string& sum : found->sums)
    split.rfactor_blocks(sum, found->program.find_compute(sum)->reduce_axes[0].name, parts);
  for (const schedule::Primitive& p : split.primitives()) base.schedule.add(p);
  const te::Program all = schedule::rewritten(found->program, split);
  std::vector<te::Program> rows;  // of each sum
  for (const std::string& sum : found->sums) {
    te::Program& part = rows.emplace_back(all);
    part.computes.clear(), part.outputs = {sum + ".rf"};
    for (const te::Compute& c : all.computes)  // what other sums leave comes from outside
      c.name() == sum + ".rf" ? part.computes.push_back(c) : part.inputs.push_back(c.outputs[0]);
  }
  const size_t axes = rows[0].computes[0].axes.size();
  Candidates candidates;
  for (const RowTiling& tiling : row_tilings({rows[0], axes, {}}, target)) {
    candidates.push_back(base);
    for (const te::Program& part : rows) {
      schedule_rows({part, axes, {}}, tiling, target, {}, candidates.back().schedule);
      candidates.back().predicted_ns += predict_ns({part, axes, {}}, tiling, target);
    }
    candidates.back().trace = {fmt::format("{} parts, {} chains of partial results", parts, tiling.chains)};
  }
  return best_distinct(std::move(candidates));
}

}  // namespace

Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target) {
  if (!task.program.computes.empty() && te::num_points(task.program.computes.back().axes) == 1) {
    if (Result<Candidates> total = construct_total(task, target); total.ok()) return total;
  }
  Construction out;
  const Result<schedule::RowProgram> found = schedule::row_program(out.schedule, task.program);
  if (!found.ok()) return Reason{found.reason()};
  const RowStages stages{found->program, found->rows, found->statistics};
  Candidates candidates;
  for (const RowTiling& tiling : row_tilings(stages, target)) {
    Construction candidate = out;
    schedule_rows(stages, tiling, target, {}, candidate.schedule);
    candidate.predicted_ns = predict_ns(stages, tiling, target);
    candidate.trace = {fmt::format("{} rows a tile, {} chains of partial results, functions of {} vectors", tiling.rows,
                                   tiling.chains, tiling.interleave)};
    candidates.push_back(std::move(candidate));
  }
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
