// A reduction that keeps the contiguous axis, with an element-wise epilogue, on devices whose tiles have threads:
// depthwise convolutions and poolings over channels that lie last. A thread computes a vector of the last axis at a few
// neighbouring points of the axis before it: its sums stay in registers, and what is the same for all points (weights)
// is loaded and converted once. Padding costs one comparison for each vector.
#include <algorithm>

#include "core/model_units.h"
#include "schedule/contraction.h"
#include "schedule/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

constexpr int64_t kTileThreads = 128;   // short tiles: all units get some
constexpr int64_t kUnitThreads = 1024;  // that hide the waits of a unit's memory accesses
constexpr int64_t kMostUnrolled = 49;   // steps of the reduction

// The only reduction of a program, which keeps its last axis.
Result<const te::Compute*> reduction_of(const te::Program& program) {
  const te::Compute* found = nullptr;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction()) continue;
    if (found != nullptr) return declined("{} is a second reduction", c.name());
    found = &c;
  }
  if (found == nullptr) return declined("no reduction");
  if (found->outputs.size() != 1 || found->axes.size() < 2) return declined("{} has no columns", found->name());
  if (schedule::has_empty_axis(*found)) return declined("{} has an axis of extent 0", found->name());
  for (const te::Compute& c : program.computes) {
    if (&c != found && !te::depends_on(program, c, found->name()))
      return declined("{} comes before {}", c.name(), found->name());
  }
  return found;
}

// Constants are stored with the columns last.
std::map<std::string, Layout> constant_layouts(const te::Compute& sum, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  te::visit_reads(sum, [&](const Expr& read) {
    const int d = schedule::dim_of_axis(read, sum.axes.back().name);
    const auto rank = static_cast<int>(read->args.size());
    if (!task.constants.contains(read->name) || d < 0 || d + 1 == rank) return;
    std::vector<int64_t> order;
    for (int k = 0; k < rank; ++k) {
      if (k != d) order.push_back(k);
    }
    order.push_back(d);
    layouts[read->name] = Layout().reorder(order);
  });
  return layouts;
}

// Whether every read moves whole vectors along the columns, or is the same for all of them.
bool moves_vectors(const te::Compute& c, const std::string& column) {
  bool whole = true;
  te::visit_reads(c, [&](const Expr& read) {
    const bool last = !read->args.empty() && read->args.back().is_var() && read->args.back()->name == column;
    for (size_t d = 0; d + (last ? 1 : 0) < read->args.size(); ++d) whole = whole && !uses_var(read->args[d], column);
  });
  return whole;
}

// Elements of the widest type in memory that one access moves.
int64_t access_lanes(const te::Program& program, const TargetInfo& target) {
  int64_t bytes = 1;
  for (const te::Tensor& t : program.inputs) bytes = std::max<int64_t>(bytes, t.type.bytes());
  for (const std::string& name : program.outputs) bytes = std::max<int64_t>(bytes, program.tensor(name).type.bytes());
  return target.vector_bytes / bytes;
}

struct Strip {
  int64_t lanes = 1;
  int64_t points = 1;  // of the axis before the last
};

void schedule_strip(schedule::Schedule& s, const te::Compute& sum, const std::string& output, const Strip& strip) {
  const std::string accumulator = output == sum.name() ? sum.name() + ".acc" : sum.name();
  if (output == sum.name()) s.cache_write(sum.name());
  // Loops of threads are left apart, so that a thread's part of the sums is seen to be its strip.
  const int64_t vectors = sum.axes.back().extent / strip.lanes, rows = sum.axes[sum.axes.size() - 2].extent;
  int64_t across = std::min(kWarpThreads, vectors);
  while (vectors % across != 0) --across;
  const int64_t along = std::clamp<int64_t>(kTileThreads / across, 1, rows / strip.points);
  std::vector<std::string> loops = axis_names(sum.axes);
  const std::string column = loops.back(), row = loops[loops.size() - 2];
  s.split(output, row, {along, strip.points}).split(output, column, {across, strip.lanes});
  loops[loops.size() - 2] += ".0";
  loops.back() += ".0";
  std::vector<std::string> order = loops;
  order.insert(order.end(), {row + ".1", column + ".1", row + ".2", column + ".2"});
  s.reorder(output, order).parallel(output, loops);
  s.threads(output, row + ".1").threads(output, column + ".1");
  s.unroll(output, row + ".2").vectorize(output, column + ".2");

  s.compute_at(accumulator, output, column + ".1", loop::Scope::kRegister);
  s.split(accumulator, column, {strip.lanes});
  order = axis_names(sum.axes);
  order.resize(order.size() - 2);
  int64_t steps = 1;
  for (const te::Axis& r : sum.reduce_axes) {
    order.push_back(r.name);
    steps *= r.extent;
  }
  order.insert(order.end(), {row, column + ".0", column + ".1"});
  s.reorder(accumulator, order);
  for (const te::Axis& r : sum.reduce_axes) {
    if (steps <= kMostUnrolled) s.unroll(accumulator, r.name);
  }
  s.unroll(accumulator, row).vectorize(accumulator, column + ".1");
}

// Points of a strip: those that divide a row, most first as long as all units have threads.
std::vector<int64_t> strip_points(const te::Compute& sum, int64_t lanes, const TargetInfo& target) {
  const int64_t vectors = num_elements(sum.outputs[0].shape) / lanes;
  std::vector<int64_t> enough, few;
  for (const int64_t points : {4, 2, 1}) {
    if (sum.axes[sum.axes.size() - 2].extent % points != 0) continue;
    const bool fills = vectors / points >= std::max(1, target.units) * kUnitThreads;
    if (fills) enough.push_back(points);
    if (!fills) few.insert(few.begin(), points);
  }
  enough.insert(enough.end(), few.begin(), few.end());
  return enough;
}

}  // namespace

Result<Candidates> construct_block_columns(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  te::Program program = schedule::inline_stages(base.schedule, task.program, [](const te::Compute&) { return false; });
  Result<const te::Compute*> sum = reduction_of(program);
  if (!sum.ok()) return Reason{sum.reason()};
  const std::string name = (*sum)->name();
  base.constant_layouts = constant_layouts(**sum, task);
  if (!base.constant_layouts.empty()) program = te::apply_layouts(program, base.constant_layouts);
  const te::Compute& c = *program.find_compute(name);
  const Result<std::string> output = schedule::epilogue_output(program, c);
  if (!output.ok()) return Reason{output.reason()};
  const std::string column = c.axes.back().name;
  const int64_t lanes = access_lanes(program, target);
  if (lanes < 2 || c.axes.back().extent % lanes != 0) return declined("columns of {} are no whole vectors", name);
  if (!moves_vectors(c, column)) return declined("{} does not read along its columns", name);
  for (const te::Compute& follows : program.computes) {
    if (follows.name() != name && follows.name() != *output) base.schedule.inline_stage(follows.name());
  }
  Candidates candidates;
  for (const int64_t points : strip_points(c, lanes, target)) {
    Construction candidate = base;
    schedule_strip(candidate.schedule, c, *output, {lanes, points});
    candidate.trace = {fmt::format("{} points of {} columns by a thread", points, lanes)};
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tw::tune
