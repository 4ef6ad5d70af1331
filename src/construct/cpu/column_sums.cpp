// A value beside sums of its columns on CPUs: one tile is a part of the rows by a few vectors of columns, whose sums
// stay in registers while the rows pass.
#include "construct/column_sums.h"

#include <algorithm>

#include "construct/elementwise.h"
#include "cost/nest.h"
#include "cost/units.h"
#include "support/math.h"

namespace tw::construct {
namespace {

using schedule::Schedule;

constexpr int64_t kMaxVectors = 8;  // hides the latency of the sums, and leaves registers for the value
constexpr size_t kPartCounts = 2;   // that are tried for each width

struct Tile {
  int64_t vectors = 1, lanes = 1;
  int64_t columns() const { return vectors * lanes; }
};

// The last axis of a stage of one tile: vectors, unrolled.
void tile_columns(Schedule& s, const std::string& stage, const std::string& column, const Tile& tile) {
  s.split(stage, column, {tile.lanes}).unroll(stage, column + ".0").vectorize(stage, column + ".1");
}

void schedule_tiles(const SumsKernel& k, const Tile& tile, Schedule& s) {
  const std::string column = k.axes.back();
  s.split(k.root, column, {tile.vectors, tile.lanes}).unroll(k.root, column + ".1").vectorize(k.root, column + ".2");
  std::vector<std::string> loops = k.axes;
  loops.back() += ".0";
  std::vector<int64_t> extents = te::shape_of(k.program.find_compute(k.root)->axes);
  extents.back() = ceil_div(extents.back(), tile.columns());
  const std::vector<std::string> tiles =
      tile_loops(loops, extents, std::max<int64_t>(1, kTileElements / (tile.columns() * k.rows)));
  if (!tiles.empty()) s.parallel(k.root, tiles);
  s.compute_at(k.sums, k.root, loops.back(), loop::Scope::kRegister);
  s.split(k.sums, column, {tile.lanes});
  std::vector<std::string> order(k.axes.begin(), k.axes.end() - 1);
  order.insert(order.end(), {k.row, column + ".0", column + ".1"});
  s.reorder(k.sums, order);
  // What the sums read, stored on the way.
  const std::vector<std::string> axes = te::axis_names(k.program.find_compute(k.value)->axes);
  s.write_at(k.stored, k.sums, k.row).compute_at(k.value, k.sums, k.row, loop::Scope::kRegister);
  s.unroll(k.sums, column + ".0").vectorize(k.sums, column + ".1");
  tile_columns(s, k.stored, te::axis_names(k.program.find_compute(k.stored)->axes).back(), tile);
  tile_columns(s, k.value, axes.back(), tile);
}

// Both kernels: the second one reads a row of sums of each part.
double predict_ns(const SumsKernel& k, const Tile& tile, const TargetInfo& target) {
  const te::Compute& value = *k.program.find_compute(k.value);
  const double step = static_cast<double>(tile.vectors) * (cost::body_cycles(value) + 2) + cost::kRowCycles;
  const int64_t steps =
      te::num_points(value.axes) / std::max<int64_t>(1, k.columns) * ceil_div(k.columns, tile.columns());
  const int64_t tiles = steps / std::max<int64_t>(1, k.rows);
  const double cycle = cost::issue_cycle_ns(target, target.lanes(DataType::f32()));
  const double first = cost::run_ns(cost::streaming_nest(k.program, value, {}),
                                    static_cast<double>(steps) * step * cycle, tiles, target);
  const int64_t parts = te::num_points(value.axes) / std::max<int64_t>(1, k.rows * k.columns);
  if (k.rows * k.columns == te::num_points(value.axes)) return first;
  return first + target.barrier_ns +
         static_cast<double>(parts * ceil_div(k.columns, tile.lanes)) * cost::kRowCycles * cycle;
}

}  // namespace

Result<Candidates> construct_sums(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<schedule::ColumnSums> match = schedule::match_column_sums(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  Tile tile;
  tile.lanes = std::min<int64_t>(lanes_for(*match->program.find_compute(match->value), target),
                                 match->reduction().axes.back().extent);
  const int64_t vectors = ceil_div(match->reduction().axes.back().extent, tile.lanes);
  Candidates candidates;
  for (int64_t max = std::min(kMaxVectors, vectors); max >= 1; max /= 2) {
    tile.vectors = ceil_div(vectors, ceil_div(vectors, max));
    const int64_t wanted = match->row().extent * tile.columns() / kTileElements;
    for (const int64_t parts : part_counts(match->row().extent, wanted, kPartCounts)) {
      Construction candidate = base;
      const Result<SumsKernel> kernel = split_rows(*match, parts, target, construct_columns, candidate.schedule);
      if (!kernel.ok()) continue;
      schedule_tiles(*kernel, tile, candidate.schedule);
      candidate.predicted_ns = predict_ns(*kernel, tile, target);
      candidate.trace = {fmt::format("{} vectors of {} columns, {} rows a tile, sums in {} parts", tile.vectors,
                                     tile.lanes, kernel->rows, parts)};
      candidates.push_back(std::move(candidate));
    }
  }
  if (candidates.empty()) return declined("the parts of {} cannot be added", match->sum);
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
