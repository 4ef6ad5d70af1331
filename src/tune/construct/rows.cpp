// Reductions along rows: softmax, layer norm, and every chain of reductions and element-wise stages whose stages share
// their leading axes with the output. One tile is one row or a few; all intermediate stages live in the tile.
#include <algorithm>

#include "tune/construct/construct.h"
#include "tune/construct/distinct.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/row_loops.h"

namespace tw::tune {

Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program = schedule::inline_stages(
      out.schedule, task.program, [&](const te::Compute& c) { return schedule::is_once_a_row(task.program, c); });
  const bool reduces = std::any_of(program.computes.begin(), program.computes.end(),
                                   [](const te::Compute& c) { return c.is_reduction(); });
  if (!reduces) return declined("no reduction");
  const te::Compute& output = program.computes.back();
  if (!std::all_of(program.outputs.begin(), program.outputs.end(),
                   [&](const std::string& name) { return program.find_compute(name) == &output; })) {
    return declined("an output that is not the last stage");
  }
  const size_t rows = schedule::common_rows(program);
  if (rows == 0) return declined("its stages share no leading axis with the output");
  const RowStages stages{program, rows};
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

}  // namespace tw::tune
