// A reduction that keeps the contiguous axis, with an element-wise epilogue: pooling over windows, means over images.
//
// One point of the leading axes at a time, a few vectors of the last axis: their partial results stay in registers
// while the reduction axes run. What the reduction reads is inlined with its guards (padding), which then cost one
// comparison for all vectors of a tile.
#include <algorithm>

#include "construct/construct.h"
#include "construct/cpu/epilogue.h"
#include "construct/elementwise.h"
#include "cost/nest.h"
#include "cost/units.h"
#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Schedule;

constexpr int64_t kMaxVectors = 8;    // hides the latency of the combination, and leaves registers for the epilogue
constexpr int64_t kMinTiles = 16;     // shorter tiles rather than idle threads
constexpr int64_t kMaxUnrolled = 36;  // vectors of a tile's reduction: code that stays in the cache of decoded ones

struct Columns {
  te::Program program;  // after inlining
  const te::Compute* sum = nullptr;
  std::string output;  // stage that owns the tile
  std::string accumulator;
  int64_t lanes = 1;
  int64_t vectors = 1;
  bool unrolls = false;  // the reduction: its counters are constants, and neighbouring reads share lines and masks
  const te::Axis& column() const { return sum->axes.back(); }
};

Result<const te::Compute*> reduction_of(const te::Program& program) {
  const Result<const te::Compute*> only = schedule::only_reduction(program);
  if (!only.ok()) return Reason{only.reason()};
  const te::Compute* found = *only;
  if (found->combiner.kind == te::CombinerKind::kTuple) return declined("{} combines tuples", found->name());
  if (found->axes.empty() || found->axes.back().extent == 1) return declined("{} keeps no axis", found->name());
  if (schedule::reduces_contiguous(*found)) return declined("{} reduces the contiguous axis", found->name());
  return found;
}

// Numbers of vectors that cut the columns evenly, the largest that leaves enough tiles first.
std::vector<int64_t> vector_counts(const te::Compute& sum, int64_t lanes) {
  const int64_t all = ceil_div(sum.axes.back().extent, lanes);
  const int64_t rows = te::num_points(sum.axes) / std::max<int64_t>(1, sum.axes.back().extent);
  std::vector<int64_t> counts;
  for (int64_t max = std::clamp<int64_t>(rows * all / kMinTiles, 1, kMaxVectors); max >= 1; max /= 2) {
    const int64_t even = ceil_div(all, ceil_div(all, max));
    if (counts.empty() || counts.back() != even) counts.push_back(even);
  }
  return counts;
}

// Issue cycles of reading one vector: what is not contiguous takes shuffles, or a load a lane.
double read_cycles(const Columns& plan) {
  double cycles = 0;
  te::visit_reads(*plan.sum, [&](const Expr& read) {
    const auto last = read->args.empty() ? std::nullopt : as_linear(read->args.back());
    int64_t stride = last ? 0 : plan.lanes;
    if (last) {
      for (const auto& [name, factor] : last->terms) stride = name == plan.column().name ? factor : stride;
    }
    cycles += std::abs(stride) <= 1 ? 1
              : stride == 2         ? cost::kEverySecondCycles
                                    : cost::kLaneCycles * static_cast<double>(plan.lanes);
  });
  return cycles;
}

// One tile: its reads and combinations, or the wait for the chain of one vector; and counters.
double predict_ns(const Columns& plan, const TargetInfo& target) {
  const auto window = static_cast<double>(te::num_points(plan.sum->reduce_axes));
  const auto vectors = static_cast<double>(plan.vectors);
  const double step =
      vectors * (read_cycles(plan) + cost::body_cycles(*plan.sum)) + (plan.unrolls ? 0 : cost::kShortLoopCycles);
  const double wait = plan.unrolls ? 0 : cost::kLatencyCycles;  // chains of unrolled tiles overlap
  const int64_t tiles = te::num_points(plan.sum->axes) / std::max<int64_t>(1, plan.column().extent) *
                        ceil_div(plan.column().extent, plan.vectors * plan.lanes);
  const double cycles = window * std::max(step, wait) + cost::kShortLoopCycles;
  return cost::run_ns(cost::streaming_nest(plan.program, *plan.sum, plan.sum->reduce_axes),
                      cycles * static_cast<double>(tiles) * cost::issue_cycle_ns(target, target.lanes(DataType::f32())),
                      tiles, target);
}

// Cuts the output into tiles. Returns the innermost loop outside a tile.
std::string schedule_output(const Columns& plan, Schedule& s) {
  const std::string column = plan.column().name;
  s.split(plan.output, column, {plan.vectors, plan.lanes});
  std::vector<std::string> loops = te::axis_names(plan.sum->axes);
  std::vector<int64_t> extents = te::shape_of(plan.sum->axes);
  loops.back() += ".0";
  extents.back() = ceil_div(extents.back(), plan.vectors * plan.lanes);
  s.unroll(plan.output, column + ".1");
  s.vectorize(plan.output, column + ".2");
  const int64_t work = plan.vectors * plan.lanes * te::num_points(plan.sum->reduce_axes);
  const std::vector<std::string> tiles = tile_loops(loops, extents, std::max<int64_t>(1, kTileElements / work));
  if (!tiles.empty()) s.parallel(plan.output, tiles);
  return loops.back();
}

void schedule_accumulator(const Columns& plan, const std::string& tile_loop, Schedule& s) {
  const std::string column = plan.column().name;
  s.compute_at(plan.accumulator, plan.output, tile_loop, loop::Scope::kRegister);
  s.split(plan.accumulator, column, {plan.lanes});
  std::vector<std::string> order = te::axis_names(plan.sum->axes);
  order.pop_back();
  for (const te::Axis& r : plan.sum->reduce_axes) order.push_back(r.name);
  order.insert(order.end(), {column + ".0", column + ".1"});
  s.reorder(plan.accumulator, order);
  if (plan.unrolls) {
    for (const te::Axis& r : plan.sum->reduce_axes) s.unroll(plan.accumulator, r.name);
  }
  s.unroll(plan.accumulator, column + ".0");
  s.vectorize(plan.accumulator, column + ".1");
}

void schedule(const Columns& plan, const TargetInfo& target, Schedule& s) {
  const std::string name = plan.sum->name();
  schedule_side_stages(s, plan.program, name, target);
  if (plan.output == name) s.cache_write(name);
  const std::string tile_loop = schedule_output(plan, s);
  schedule_epilogue(plan.program, {name, plan.output, tile_loop, {}, plan.column().name, static_cast<int>(plan.lanes)},
                    s);
  schedule_accumulator(plan, tile_loop, s);
}

}  // namespace

Result<Candidates> construct_columns(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  Columns plan;
  plan.program = schedule::inline_stages(out.schedule, task.program);
  const Result<const te::Compute*> sum = reduction_of(plan.program);
  if (!sum.ok()) return Reason{sum.reason()};
  plan.sum = *sum;
  const std::string name = plan.sum->name();
  if (schedule::has_empty_axis(*plan.sum)) return declined("{} has an axis of extent 0", name);
  const Result<std::string> output = schedule::epilogue_output(plan.program, *plan.sum);
  if (!output.ok()) return Reason{output.reason()};
  plan.output = *output;
  plan.accumulator = plan.output == name ? name + ".acc" : name;
  plan.lanes = std::min<int64_t>(lanes_for(*plan.sum, target), plan.column().extent);
  Candidates candidates;
  for (const int64_t vectors : vector_counts(*plan.sum, plan.lanes)) {
    plan.vectors = vectors;
    for (const bool unrolls : {true, false}) {
      plan.unrolls = unrolls;
      if (unrolls && te::num_points(plan.sum->reduce_axes) * plan.vectors > kMaxUnrolled) continue;
      Construction candidate = out;
      schedule(plan, target, candidate.schedule);
      candidate.predicted_ns = predict_ns(plan, target);
      candidate.trace = {fmt::format("{} vectors of {} columns, reduction {}", plan.vectors, plan.lanes,
                                     unrolls ? "unrolled" : "in loops")};
      candidates.push_back(std::move(candidate));
    }
  }
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
