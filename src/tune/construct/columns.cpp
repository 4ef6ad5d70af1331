// A reduction that keeps the contiguous axis, with an element-wise epilogue: pooling over windows, means over images.
//
// One point of the leading axes at a time, a few vectors of the last axis: their partial results stay in registers
// while the reduction axes run. What the reduction reads is inlined with its guards (padding), which then cost one
// comparison for all vectors of a tile.
#include <algorithm>

#include "support/math.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/epilogue.h"

namespace tw::tune {
namespace {

using schedule::Schedule;

constexpr int64_t kMostVectors = 8;  // hides the latency of the combination, and leaves registers for the epilogue
constexpr int64_t kLeastTiles = 16;  // shorter tiles rather than idle threads

struct Columns {
  te::Program program;  // after inlining
  const te::Compute* sum = nullptr;
  std::string output;  // stage that owns the tile
  std::string accumulator;
  int64_t lanes = 1;
  int64_t vectors = 1;
  const te::Axis& column() const { return sum->axes.back(); }
};

Result<const te::Compute*> only_reduction(const te::Program& program) {
  const te::Compute* found = nullptr;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction()) continue;
    if (found != nullptr) return declined("{} is a second reduction", c.name());
    found = &c;
  }
  if (found == nullptr) return declined("no reduction");
  if (found->outputs.size() != 1) return declined("{} has several outputs", found->name());
  if (found->axes.empty() || found->axes.back().extent == 1) return declined("{} keeps no axis", found->name());
  if (reduces_contiguous(*found)) return declined("{} reduces the contiguous axis", found->name());
  return found;
}

// As few vectors as leave enough tiles, and cut the columns evenly.
int64_t vectors_of(const te::Compute& sum, int64_t lanes) {
  int64_t points = 1;
  for (size_t k = 0; k + 1 < sum.axes.size(); ++k) points *= sum.axes[k].extent;
  const int64_t all = ceil_div(sum.axes.back().extent, lanes);
  const int64_t most = std::clamp<int64_t>(points * all / kLeastTiles, 1, kMostVectors);
  return ceil_div(all, ceil_div(all, most));
}

// Cuts the output into tiles. Returns the innermost loop outside a tile.
std::string schedule_output(const Columns& plan, Schedule& s) {
  const std::string column = plan.column().name;
  s.split(plan.output, column, {plan.vectors, plan.lanes});
  std::vector<std::string> loops;
  std::vector<int64_t> extents;
  for (const te::Axis& axis : plan.sum->axes) {
    loops.push_back(axis.name);
    extents.push_back(axis.extent);
  }
  loops.back() += ".0";
  extents.back() = ceil_div(extents.back(), plan.vectors * plan.lanes);
  s.unroll(plan.output, column + ".1");
  s.vectorize(plan.output, column + ".2");
  int64_t work = plan.vectors * plan.lanes;
  for (const te::Axis& r : plan.sum->reduce_axes) work *= std::max<int64_t>(1, r.extent);
  const std::vector<std::string> tiles = tile_loops(loops, extents, std::max<int64_t>(1, kTileElements / work));
  if (!tiles.empty()) s.parallel(plan.output, tiles);
  return loops.back();
}

void schedule_accumulator(const Columns& plan, const std::string& tile_loop, Schedule& s) {
  const std::string column = plan.column().name;
  s.compute_at(plan.accumulator, plan.output, tile_loop, loop::Scope::kRegister);
  s.split(plan.accumulator, column, {plan.lanes});
  std::vector<std::string> order;
  for (size_t k = 0; k + 1 < plan.sum->axes.size(); ++k) order.push_back(plan.sum->axes[k].name);
  for (const te::Axis& r : plan.sum->reduce_axes) order.push_back(r.name);
  order.push_back(column + ".0");
  order.push_back(column + ".1");
  s.reorder(plan.accumulator, order);
  s.unroll(plan.accumulator, column + ".0");
  s.vectorize(plan.accumulator, column + ".1");
}

}  // namespace

Result<Candidates> construct_columns(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  Columns plan;
  plan.program = inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  const Result<const te::Compute*> sum = only_reduction(plan.program);
  if (!sum.ok()) return Reason{sum.reason()};
  plan.sum = *sum;
  const std::string name = plan.sum->name();
  const Result<std::string> output = epilogue_output(plan.program, *plan.sum);
  if (!output.ok()) return Reason{output.reason()};
  plan.output = *output;
  plan.accumulator = plan.output == name ? name + ".acc" : name;
  plan.lanes = std::min<int64_t>(lanes_for(*plan.sum, target), plan.column().extent);
  plan.vectors = vectors_of(*plan.sum, plan.lanes);
  for (const te::Compute& c : plan.program.computes) {
    if (c.name() != name && !te::depends_on(plan.program, c, name))
      schedule_elementwise(out.schedule, plan.program, c, target);
  }
  if (plan.output == name) out.schedule.cache_write(name);
  const std::string tile_loop = schedule_output(plan, out.schedule);
  schedule_epilogue(plan.program, {name, plan.output, tile_loop, {}, plan.column().name, static_cast<int>(plan.lanes)},
                    out.schedule);
  schedule_accumulator(plan, tile_loop, out.schedule);
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
