// Sums at computed indices, as the gradient of an embedding: a tile is a block of lines in scratch memory, and every
// term is added to its line where that lies in the block. So terms come in their order, whatever the number of threads.
// Each tile compares all indices: blocks as large as caches allow, and enough of them for all cores.
#include "schedule/match/scatter.h"

#include <algorithm>

#include "construct/construct.h"
#include "construct/elementwise.h"
#include "cost/nest.h"
#include "cost/units.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Scatter;
using schedule::Schedule;

constexpr int64_t kTilesOfUnit = 4;    // so that the last ones keep all units busy
constexpr size_t kCachesOfBlocks = 2;  // levels near the unit

struct Block {
  int64_t lines = 1, lanes = 1;
  std::vector<std::string> inside;  // axes of a line
};

// What is read more than once between the sum and the output: a block of it in scratch memory, as the sums are.
void schedule_stages(const Scatter& match, const Block& block, const std::string& tile, Schedule& s) {
  for (auto c = match.program.computes.rbegin(); c != match.program.computes.rend(); ++c) {
    if (c->name() == match.output || c->name() == match.sum || !te::depends_on(match.program, *c, match.sum)) continue;
    s.compute_at(c->name(), match.output, tile, loop::Scope::kScratch);
    if (block.inside.empty()) continue;
    s.split(c->name(), block.inside.back(), {block.lanes}).vectorize(c->name(), block.inside.back() + ".1");
  }
}

void schedule_blocks(const Scatter& match, const Block& block, const TargetInfo& target, Schedule& s) {
  const te::Compute& sum = match.compute();
  const std::string line = sum.axes[match.line].name;
  schedule_side_stages(s, match.program, match.sum, target);
  const bool copies = match.output == match.sum;
  const std::string sums = copies ? match.sum + ".acc" : match.sum;
  if (copies) s.cache_write(match.sum);
  std::vector<std::string> tiles = te::axis_names(sum.axes);
  tiles.resize(match.line);
  tiles.push_back(line + ".0");
  s.split(match.output, line, {block.lines});
  schedule_stages(match, block, tiles.back(), s);
  s.compute_at(sums, match.output, tiles.back(), loop::Scope::kScratch);
  std::vector<std::string> order(tiles.begin(), tiles.end() - 1);
  for (const te::Axis& r : sum.reduce_axes) order.push_back(r.name);
  order.push_back(line);
  order.insert(order.end(), block.inside.begin(), block.inside.end());
  s.reorder(sums, order);
  for (const std::string& stage : {match.output, sums}) {
    if (block.inside.empty()) continue;
    s.split(stage, block.inside.back(), {block.lanes}).vectorize(stage, block.inside.back() + ".1");
  }
  s.parallel(match.output, tiles);
}

double predicted_ns(const Scatter& match, int64_t tiles, const TargetInfo& target) {
  const te::Compute& sum = match.compute();
  const double terms = static_cast<double>(te::num_points(sum.reduce_axes));
  const double cycles = static_cast<double>(tiles) * terms * cost::kScatteredIndexCycles;
  return cost::run_ns(cost::streaming_nest(match.program, sum, {}), cycles * cost::issue_cycle_ns(target, 1), tiles,
                      target);
}

}  // namespace

Result<Candidates> construct_scatter(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<Scatter> match = schedule::match_scatter(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  const te::Compute& sum = match->compute();
  Block block;
  for (size_t d = match->line + 1; d < sum.axes.size(); ++d) block.inside.push_back(sum.axes[d].name);
  if (!block.inside.empty()) block.lanes = std::min<int64_t>(lanes_for(sum, target), sum.axes.back().extent);
  const int64_t lines = sum.axes[match->line].extent;
  const int64_t before =
      te::num_points({sum.axes.begin(), sum.axes.begin() + static_cast<std::ptrdiff_t>(match->line)});
  const int64_t line_bytes = num_elements(sum.outputs[0].shape) / (lines * before) * sum.outputs[0].type.bytes();
  const int64_t wanted = kTilesOfUnit * std::max(1, target.compute_units);
  Candidates candidates;
  for (size_t level = 0; level < std::min(kCachesOfBlocks, target.levels.size()); ++level) {
    const double room = cost::kKeptShare * static_cast<double>(target.levels[level].capacity_bytes);
    const auto fit = std::max<int64_t>(1, static_cast<int64_t>(room) / line_bytes);
    block.lines = std::clamp<int64_t>(ceil_div(lines * before, wanted), 1, std::min(fit, lines));
    const int64_t tiles = before * ceil_div(lines, block.lines);
    candidates.push_back(base);
    schedule_blocks(*match, block, target, candidates.back().schedule);
    candidates.back().predicted_ns = predicted_ns(*match, tiles, target);
    candidates.back().trace = {fmt::format("blocks of {} lines", block.lines)};
  }
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
