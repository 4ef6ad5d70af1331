// Rows that are reduced and leave beside sums of their columns (schedule/match/row_sums.h), on CPUs: a tile is a part
// of the rows, which it takes one after the other; its sums stay in the nearest cache. A second kernel adds those of
// all parts.
#include "schedule/match/row_sums.h"

#include <algorithm>

#include "construct/column_sums.h"
#include "construct/cpu/row_loops.h"
#include "construct/elementwise.h"

namespace tw::construct {
namespace {

constexpr size_t kPartCounts = 2;          // that are tried
constexpr int64_t kSumsBytes = 16 * 1024;  // that stay in the nearest cache beside a row
constexpr int64_t kTileRows = 8;           // of a part at least: partial sums are an eighth of what is read

void schedule_sums(const SumsKernel& k, const TargetInfo& target, schedule::Schedule& s) {
  const std::string part = k.axes.front(), column = k.axes.back();
  const te::Compute& sums = *k.program.find_compute(k.sums);
  const int64_t lanes = std::min<int64_t>(lanes_for(sums, target), k.columns);
  int64_t bytes = 0;
  for (const te::Tensor& t : sums.outputs) bytes += k.columns * t.type.bytes();
  s.parallel(k.root, {part});
  s.compute_at(k.sums, k.root, part, bytes <= kSumsBytes ? loop::Scope::kStack : loop::Scope::kScratch);
  if (lanes < 2) {
    s.reorder(k.sums, {part, k.row, column});
    return;
  }
  s.split(k.root, column, {lanes}).vectorize(k.root, column + ".1");
  s.split(k.sums, column, {lanes}).reorder(k.sums, {part, k.row, column + ".0", column + ".1"});
  s.vectorize(k.sums, column + ".1");
}

}  // namespace

Result<Candidates> construct_row_sums(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<schedule::RowSums> match = schedule::match_row_sums(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  const RowStages stages{match->rows.program, match->rows.rows, match->rows.statistics};
  const int64_t rows = match->row().extent;
  const int64_t wanted = std::min(rows / kTileRows, rows * match->reduction().axes[0].extent / kTileElements);
  const SumOfRows sum{match->program, match->sum, match->output, match->sums_that_leave()};
  Candidates candidates;
  for (const RowTiling& tiling : row_tilings(stages, target)) {
    if (tiling.rows > 1) continue;
    for (const int64_t parts : part_counts(rows, wanted, kPartCounts)) {
      if (parts == 1 && rows > 1) continue;  // sums that are no stage of a tile
      Construction candidate = base;
      const Result<SumsKernel> kernel = split_rows(sum, parts, target, construct_columns, candidate.schedule);
      if (!kernel.ok()) return Reason{kernel.reason()};
      schedule_sums(*kernel, target, candidate.schedule);
      schedule_row_turns(stages, tiling, target, {kernel->sums, kernel->row, false, match->read}, candidate.schedule);
      candidate.predicted_ns = predict_ns(stages, tiling, target);
      candidate.trace = {fmt::format("{} rows of a part, sums in {} parts, {} chains of partial results", kernel->rows,
                                     parts, tiling.chains)};
      candidates.push_back(std::move(candidate));
    }
  }
  if (candidates.empty()) return declined("its {} rows are no parts", rows);
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
