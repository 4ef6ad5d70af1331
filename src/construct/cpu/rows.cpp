// Reductions along rows: softmax, layer norm, and every chain of reductions and element-wise stages whose stages share
// their leading axes with the output. One tile is one row or a few; all intermediate stages live in the tile.

#include "construct/construct.h"
#include "construct/cpu/row_loops.h"
#include "schedule/match/stages.h"

namespace tw::construct {

Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target) {
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
