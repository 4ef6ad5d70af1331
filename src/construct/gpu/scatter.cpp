// Sums at computed indices, as the gradient of an embedding, on GPUs: a block has some lines in shared memory, a thread
// some elements of each. All threads see the same indices, and add the terms of their lines in their order.
#include "schedule/match/scatter.h"

#include <algorithm>

#include "construct/construct.h"
#include "construct/elementwise.h"
#include "cost/gpu_rows.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kThreads[] = {256, 128};         // elements of a line at a time
constexpr int64_t kTogether[] = {1, 8};            // indices that a thread reads at a time
constexpr int64_t kResident[] = {1, 2, 4, 8, 16};  // blocks on a unit, whose sums share its memory

struct Block {
  int64_t lines = 1, threads = 1;
  int64_t together = 1;  // 1: each lane of a warp looks at another index (codegen/cuda, search)
};

// What stands before the sum is computed once, by a kernel before: each block would do it again for every index.
void schedule_before(const schedule::Scatter& match, const TargetInfo& target, schedule::Schedule& s) {
  for (const te::Compute& c : match.program.computes) {
    if (c.name() == match.sum || c.name() == match.output) continue;
    if (te::depends_on(match.program, c, match.sum) || c.axes.empty()) {
      s.inline_stage(c.name());
    } else {
      map_to_threads(s, c.name(), axis_names(c.axes), threads_for(te::num_points(c.axes), kThreads[0], target));
    }
  }
}

void schedule_blocks(const schedule::Scatter& match, const Block& block, schedule::Schedule& s) {
  const te::Compute& sum = match.compute();
  const std::vector<std::string> axes = te::axis_names(sum.axes);
  const std::string& line = axes[match.line];
  const std::vector<std::string> inside(axes.begin() + static_cast<std::ptrdiff_t>(match.line) + 1, axes.end());
  const bool copies = match.output == match.sum;
  const std::string sums = copies ? match.sum + ".acc" : match.sum;
  if (copies) s.cache_write(match.sum);
  std::vector<std::string> tiles(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(match.line));
  std::vector<std::string> order = tiles;
  const auto split_line = [&](const std::string& stage) {
    if (inside.size() > 1) s.fuse(stage, inside);
    std::string element;
    for (const std::string& axis : inside) element += (element.empty() ? "" : "$") + axis;
    s.split(stage, element, {block.threads});
    return element;
  };
  s.split(match.output, line, {block.lines});
  const std::string element = split_line(match.output);
  tiles.insert(tiles.end(), {line + ".0", element + ".0"});
  s.reorder(match.output, {line + ".0", element + ".0", element + ".1", line + ".1"});
  s.threads(match.output, element + ".1").parallel(match.output, tiles);
  s.compute_at(sums, match.output, tiles.back(), loop::Scope::kStack);
  split_line(sums);
  order.insert(order.end(), {element + ".0", element + ".1"});
  for (const te::Axis& r : sum.reduce_axes) order.push_back(r.name);
  const te::Axis& last = sum.reduce_axes.back();
  if (block.together > 1) {
    s.split(sums, last.name, {block.together}).unroll(sums, last.name + ".1");
    order.back() += ".0";
    order.push_back(last.name + ".1");
  }
  order.push_back(line);
  s.reorder(sums, order);
  s.threads(sums, element + ".1");
}

}  // namespace

Result<Candidates> construct_gpu_scatter(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<schedule::Scatter> match = schedule::match_scatter(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  const te::Compute& sum = match->compute();
  const auto line = sum.axes.begin() + static_cast<std::ptrdiff_t>(match->line);
  const int64_t elements = te::num_points({line + 1, sum.axes.end()}),
                before = te::num_points({sum.axes.begin(), line});
  if (elements < kWarpThreads) return declined("lines of {} have {} elements, fewer than a warp", match->sum, elements);
  const int64_t shared = target.levels.front().capacity_bytes - kReservedShared;
  std::vector<std::pair<int64_t, int64_t>> ways;  // threads, indices at a time
  for (const int64_t threads : kThreads) {
    for (const int64_t together : kTogether)
      if (sum.reduce_axes.back().extent % together == 0) ways.emplace_back(std::min(threads, elements), together);
  }
  Candidates candidates;
  for (const int64_t resident : kResident) {
    for (const auto& [threads, together] : ways) {
      const Block block = {
          std::clamp<int64_t>(shared / (resident * threads * sum.outputs[0].type.bytes()), 1, line->extent), threads,
          together};
      const int64_t parts = ceil_div(line->extent, block.lines), indices = te::num_points(sum.reduce_axes);
      candidates.push_back(base);
      schedule_before(*match, target, candidates.back().schedule);
      schedule_blocks(*match, block, candidates.back().schedule);
      candidates.back().predicted_ns =
          cost::scatter_ns({before * parts * ceil_div(elements, threads), threads, resident, indices,
                            static_cast<double>(indices) / static_cast<double>(parts), together == 1},
                           target);
      candidates.back().trace = {
          fmt::format("blocks of {} lines, {} threads, {} indices a thread at a time", block.lines, threads, together)};
    }
  }
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
