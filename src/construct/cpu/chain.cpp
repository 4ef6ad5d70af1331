// Chains (schedule/match/chain.h): the output of the last contraction is tiled into blocks of rows that threads share;
// every stage before it is computed in the block, in scratch memory, by the loops of its kind: contractions in register
// tiles (contraction_loops.h), row reductions a few rows at a time (row_loops.h). What passes from one stage to the
// next stays in the caches near the unit: blocks grow while they fit the second one.
#include "schedule/match/chain.h"

#include <algorithm>

#include "construct/cpu/contraction_loops.h"
#include "construct/cpu/contraction_operands.h"
#include "construct/cpu/row_loops.h"
#include "construct/elementwise.h"
#include "cost/units.h"
#include "schedule/match/stages.h"
#include "support/math.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using schedule::ChainSegment;
using schedule::Contraction;

constexpr size_t kRegisterTiles = 2;  // of the last contraction
constexpr size_t kTilings = 8;  // of one contraction in a block, of which the first that cuts no reduction is taken

// One contraction of the chain in a program of a block, or of the whole group.
struct ChainProblem {
  Contraction match;
  ContractionProblem problem;
  ChainProblem(const te::Program& program, const std::string& sum, const TargetInfo& target)
      : match(*schedule::match_contraction(*program.find_compute(sum))),
        problem{program, match, schedule::reduction_order(program, match), 1} {
    const int64_t lanes = target.lanes(program.tensor(sum).type);
    problem.lanes = static_cast<int>(std::min<int64_t>(lanes, match.column.extent));
  }
  ChainProblem(const ChainProblem&) = delete;
  ChainProblem& operator=(const ChainProblem&) = delete;

  int64_t steps() const { return te::num_points(problem.reductions); }
};

// What one block sees: a unit on its own.
TargetInfo one_unit(const TargetInfo& target) {
  TargetInfo unit = target;
  unit.compute_units = 1;
  return unit;
}

// How the stages of one block are run.
struct BlockPlan {
  std::map<std::string, ContractionTiling> tilings;  // by contraction
  std::map<std::string, RowTiling> rows;             // by the last stage of a row segment
  std::map<std::string, int64_t> extents;            // of the axes of the last contraction's output
  int64_t blocks = 1;
  double predicted_ns = 0;
};

class ChainBuilder {
 public:
  ChainBuilder(const GroupTask& task, const Chain& chain, const TargetInfo& target)
      : task_(task),
        chain_(chain),
        target_(target),
        unit_(one_unit(target)),
        whole_(chain.program, chain.last, target) {}

  Candidates run(const Construction& base) {
    Candidates candidates;
    std::vector<RegisterTile> seen;
    for (const ContractionTiling& t : tile_contraction(whole_.problem, unit_, kTilings)) {
      const auto same = [&](const RegisterTile& s) {
        return s.outer == t.tile.outer && s.inner == t.tile.inner && s.vectors == t.tile.vectors;
      };
      if (seen.size() == kRegisterTiles || std::ranges::any_of(seen, same)) continue;
      seen.push_back(t.tile);
      for (const BlockPlan& plan : block_plans(t.tile)) candidates.push_back(construct(base, plan));
    }
    return best_distinct(std::move(candidates));
  }

 private:
  int64_t unit_rows(const RegisterTile& tile) const { return whole_.match.rows.size() > 1 ? tile.outer : tile.inner; }
  const te::Axis& blocked() const { return *blocked_row(whole_.match); }

  // Blocks of equal height, a power of two of them: cores get equal shares.
  std::vector<BlockPlan> block_plans(const RegisterTile& tile) const {
    const int64_t tiles = ceil_div(blocked().extent, unit_rows(tile));
    std::set<int64_t> heights = {1};
    for (int64_t blocks = 1; blocks < tiles; blocks *= 2) heights.insert(ceil_div(tiles, blocks));
    std::vector<BlockPlan> plans;
    for (const int64_t height : heights) {
      std::optional<BlockPlan> plan = plan_block(tile, height);
      if (!plan) break;
      plans.push_back(std::move(*plan));
    }
    return plans;
  }

  // Blocks of `tiles` register tiles; nothing when what is between the stages exceeds the cache.
  std::optional<BlockPlan> plan_block(const RegisterTile& tile, int64_t tiles) const {
    BlockPlan plan;
    for (const te::Axis& axis : whole_.match.compute->axes) plan.extents[axis.name] = axis.extent;
    for (const te::Axis& axis : whole_.match.batch) tile_axis(plan, axis, 1);
    for (const te::Axis& axis : whole_.match.rows) {
      if (axis.name == blocked().name) break;
      tile_axis(plan, axis, 1);
    }
    tile_axis(plan, blocked(), tiles * unit_rows(tile));
    const te::Program block = schedule::block_program(chain_, plan.extents);
    const int64_t scratch = schedule::bytes_between(chain_, block);
    if (target_.levels.size() > 1 &&
        static_cast<double>(scratch) > cost::kCacheShare * static_cast<double>(target_.levels[1].capacity_bytes))
      return std::nullopt;
    double block_ns = 2 * cost::kExposedTraffic * read_ns(scratch);
    for (const ChainSegment& segment : chain_.segments) block_ns += plan_segment(plan, block, segment);
    ContractionTiling last;
    last.tile = tile;
    last.row_tiles = tiles;
    last.column_tiles = ceil_div(whole_.match.column.extent, tile.vectors * whole_.problem.lanes);
    last.columns_outside = false;
    plan.tilings[chain_.last] = last;
    const ChainProblem local(block, chain_.last, target_);
    block_ns += contraction_ns(local, tile);
    const auto working = std::min<int64_t>(plan.blocks, std::max(1, target_.compute_units));
    plan.predicted_ns = block_ns * static_cast<double>(ceil_div(plan.blocks, working)) + target_.fork_join_ns;
    return plan;
  }

  static void tile_axis(BlockPlan& plan, const te::Axis& axis, int64_t extent) {
    plan.extents[axis.name] = std::min(extent, axis.extent);
    plan.blocks *= ceil_div(axis.extent, extent);
  }

  // Of one core, from the nearest level that holds `bytes`.
  double read_ns(int64_t bytes) const {
    const auto count = static_cast<double>(bytes);
    return count / cost::read_rate(target_, count, cost::kCacheShare);
  }

  // Arithmetic of one block, and B once from where all blocks of one batch find it.
  double contraction_ns(const ChainProblem& local, const RegisterTile& tile) const {
    TileProblem problem;
    const Contraction& m = local.match;
    problem.columns = m.column.extent;
    problem.lanes = local.problem.lanes;
    problem.product = cost::product_cost(m.words, target_);
    problem.a_is_vector = m.a_uses_column;
    problem.steps = std::max<int64_t>(1, local.steps());
    double others = 1;
    for (size_t i = 0; i < m.rows.size(); ++i) {
      if (i + 1 == m.rows.size())
        problem.inner_rows = m.rows[i].extent;
      else if (i + 2 == m.rows.size())
        problem.outer_rows = m.rows[i].extent;
      else
        others *= static_cast<double>(m.rows[i].extent);
    }
    const double cycles = cycles_of(problem, tile) * others * static_cast<double>(problem.steps);
    const te::Tensor& b = local.problem.program.tensor(m.b->name);
    const int64_t bytes = problem.steps * m.column.extent * b.type.bytes();
    return cycles * cost::issue_cycle_ns(target_, local.problem.lanes) + cost::kExposedTraffic * read_ns(bytes);
  }

  double cycles_of(const TileProblem& problem, const RegisterTile& tile) const {
    const double fmas =
        static_cast<double>(round_up(problem.inner_rows, tile.inner) * round_up(problem.outer_rows, tile.outer) *
                            ceil_div(problem.columns, problem.lanes));
    const double of_tile = static_cast<double>(tile.outer * tile.inner * tile.vectors);
    const double loads = static_cast<double>(tile.outer * tile.inner + tile.vectors);
    return fmas * std::max({problem.product.cycles, loads / of_tile, cost::kLatencyCycles / of_tile});
  }

  double plan_segment(BlockPlan& plan, const te::Program& block, const ChainSegment& segment) const {
    if (segment.sum.empty()) {
      const te::Program rows = schedule::segment_program(block, segment);
      const RowStages stages{rows, schedule::common_rows(rows)};
      double min = 0;
      for (const RowTiling& tiling : row_tilings(stages, unit_)) {
        const double ns = predict_ns(stages, tiling, unit_);
        if (plan.rows.count(segment.output()) != 0 && ns >= min) continue;
        plan.rows[segment.output()] = tiling;
        min = ns;
      }
      return min;
    }
    const ChainProblem local(block, segment.sum, target_);
    for (const ContractionTiling& t : tile_contraction(local.problem, unit_, kTilings)) {
      if (t.reduction_blocks > 1) continue;
      plan.tilings[segment.sum] = t;
      return contraction_ns(local, t.tile);
    }
    return 0;
  }

  Construction construct(const Construction& base, const BlockPlan& plan) const {
    Construction out = base;
    out.predicted_ns = plan.predicted_ns;
    out.constant_layouts.insert(chain_.layouts.begin(), chain_.layouts.end());
    for (const auto& [sum, tiling] : plan.tilings) {
      const ChainProblem whole(chain_.program, sum, target_);
      const Panels panels = place_b(whole.problem, tiling, task_, target_, out);
      if (panels.copy) schedule_stage(out.schedule, chain_.program, {&*panels.copy}, target_);
    }
    const te::Program block = schedule::block_program(chain_, plan.extents);
    TilePlace place;
    place.shares_blocks = true;
    const ContractionTiling& last = plan.tilings.at(chain_.last);
    place = {chain_.output, schedule_contraction({whole_.problem, last, chain_.output, {}, place}, out.schedule)};
    for (auto segment = chain_.segments.rbegin(); segment != chain_.segments.rend(); ++segment) {
      const te::Program stages = schedule::segment_program(block, *segment);
      if (segment->sum.empty()) {
        schedule_rows({stages, schedule::common_rows(stages)}, plan.rows.at(segment->output()), target_, place,
                      out.schedule);
      } else {
        const ChainProblem local(stages, segment->sum, target_);
        schedule_contraction({local.problem, plan.tilings.at(segment->sum), segment->output(), {}, place},
                             out.schedule);
      }
    }
    const int64_t rows = std::min(last.row_tiles * unit_rows(last.tile), te::num_points(whole_.match.rows));
    out.trace = {fmt::format("{} blocks of {} rows, {} bytes between their stages", plan.blocks, rows,
                             schedule::bytes_between(chain_, block))};
    return out;
  }

  const GroupTask& task_;
  const Chain& chain_;
  const TargetInfo& target_;
  TargetInfo unit_;
  ChainProblem whole_;
};

}  // namespace

Result<Candidates> construct_chain(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<Chain> chain = schedule::match_chain(schedule::inline_chain(base.schedule, task.program));
  if (!chain.ok()) return Reason{chain.reason()};
  schedule_side_stages(base.schedule, chain->program, chain->last, target,
                       [&](const te::Compute& c) { return chain->contains(c.name()); });
  Candidates candidates = ChainBuilder(task, *chain, target).run(base);
  if (candidates.empty()) return declined("no block of rows fits L2");
  return candidates;
}

}  // namespace tw::construct
