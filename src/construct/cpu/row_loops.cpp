#include "construct/cpu/row_loops.h"

#include <cmath>

#include "construct/elementwise.h"
#include "cost/nest.h"
#include "cost/units.h"
#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kStackBytes = 16 * 1024;  // larger row buffers go to the thread's scratch area

// The stages of one tile and how they are cut.
class RowScheduler {
 public:
  RowScheduler(const RowStages& stages, const TargetInfo& target)
      : program_(stages.program),
        output_(stages.program.computes.back()),
        rows_(stages.rows),
        statistics_(stages.statistics),
        target_(target) {}

  // Tilings worth a look: rows that divide their axis, as many accumulators as half the registers hold.
  std::vector<RowTiling> tilings() const {
    const int64_t last_rows = output_.axes[rows_ - 1].extent;
    std::vector<RowTiling> all;
    for (const int64_t rows : {1, 2, 4, 8}) {
      for (const int64_t chains : {1, 2, 4}) {
        if (last_rows % rows != 0 || rows * chains > target_.vector_registers / 2) continue;
        if (rows > 1 && (row_bytes() * rows > shared_bytes() || !rows_may_share_tiles())) continue;
        if (chains > 1 && chains > max_chains()) continue;
        for (const int64_t interleave : {1, 2, 4}) {
          if (interleave == 1 || has_functions()) all.push_back({rows, chains, interleave});
        }
      }
    }
    return all;
  }

  void run(schedule::Schedule& s, const RowTiling& tiling, const TilePlace& place) {
    tiling_ = tiling;
    for (const te::Compute& c : program_.computes) {
      if (!is_factored(c)) continue;
      s.rfactor(c.name(), c.reduce_axes.back().name, chains(c) * lanes(c));
    }
    if (!place.consumer.empty()) s.compute_at(output_.name(), place.consumer, place.loop, loop::Scope::kScratch);
    std::vector<std::string> tiles = axis_names(output_.axes);
    tiles.resize(rows_);
    if (tiling_.rows > 1) {
      s.split(output_.name(), tiles.back(), {tiling_.rows});
      tiles.back() += ".0";
    }
    const TilePlace tile{output_.name(), tiles.back()};
    if (is_factored(output_)) attach_partial(s, output_, tile);
    attach(s, tile);
    is_factored(output_) ? factored_loops(s, output_) : loops(s, output_);
    if (place.consumer.empty()) s.parallel(output_.name(), tiles);
  }

  void run_turns(schedule::Schedule& s, const RowTiling& tiling, const TilePlace& place) {
    tiling_ = tiling;
    for (const te::Compute& c : program_.computes) {
      if (is_factored(c)) s.rfactor(c.name(), c.reduce_axes.back().name, chains(c) * lanes(c));
    }
    attach(s, place);
  }

  // Each stage takes its issue cycles for all rows, or as long as one row has to wait for its last partial result.
  double predict_ns(const RowTiling& tiling) {
    tiling_ = tiling;
    double cycles = cost::kRowTileCycles;
    std::vector<te::Axis> reduced;
    for (const te::Compute& c : program_.computes) {
      const auto rows = static_cast<double>(tiling_.rows);
      cycles += std::max(rows * stage_cycles(c), stage_cycles(c) + wait_cycles(c));
      if (c.is_reduction() && reduced.empty() && output_.axes.size() == rows_) reduced = c.reduce_axes;
    }
    const int64_t tiles = te::num_points({output_.axes.begin(), output_.axes.begin() + rows_}) / tiling_.rows;
    return cost::run_ns(
        cost::streaming_nest(program_, output_, reduced),
        cycles * static_cast<double>(tiles) * cost::issue_cycle_ns(target_, target_.lanes(DataType::f32())), tiles,
        target_);
  }

 private:
  static constexpr int64_t kStreamsInLevel = 32;  // measured: softmax over 128 takes half the time at 1 KiB as at 4
  static constexpr int64_t kPlainVectors = 4;     // of a step without functions: counting it costs as much as a vector

  // All stages but the output. Readers are attached before what they read.
  void attach(schedule::Schedule& s, const TilePlace& place) const {
    for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
      if (c->name() == output_.name()) continue;
      if (statistics_.contains(c->name())) {
        s.write_at(c->name(), place.consumer, place.loop, place.read);
        continue;
      }
      s.compute_at(c->name(), place.consumer, place.loop, scope(*c));
      if (is_factored(*c)) attach_partial(s, *c, place);
    }
    for (const te::Compute& c : program_.computes) {
      if (c.name() != output_.name()) is_factored(c) ? factored_loops(s, c) : loops(s, c);
    }
  }

  void attach_partial(schedule::Schedule& s, const te::Compute& c, const TilePlace& place) const {
    const loop::Scope held = is_scalar(c) ? loop::Scope::kRegister : scope(c, chains(c) * lanes(c));
    s.compute_at(partial(c), place.consumer, place.loop, held);
  }

  std::string partial(const te::Compute& c) const { return c.name() + ".rf"; }
  int64_t lanes(const te::Compute& c) const { return target_.lanes(c.outputs[0].type); }

  int64_t vectors(const te::Compute& c) const { return ceil_div(c.reduce_axes.back().extent, lanes(c)); }

  // Of the shortest row.
  int64_t max_chains() const {
    int64_t max = 1;
    for (const te::Compute& c : program_.computes) {
      if (is_factored(c)) max = std::max(max, vectors(c));
    }
    return max;
  }

  bool has_functions() const {
    return std::ranges::any_of(program_.computes,
                               [&](const te::Compute& c) { return schedule::calls_function(c) && !is_scalar(c); });
  }

  int64_t chains(const te::Compute& c) const { return is_scalar(c) ? std::min(tiling_.chains, vectors(c)) : 1; }

  // One value a row: its partial results fit into registers.
  bool is_scalar(const te::Compute& c) const { return elements_of_row(c) == 1; }

  bool is_factored(const te::Compute& c) const {
    return c.is_reduction() && c.outputs.size() == 1 && c.combiner.kind != te::CombinerKind::kTuple && reads_along(c) &&
           c.reduce_axes.back().extent >= 2 * lanes(c);
  }

  // Terms that lie beside each other: of a row, or of a part of one.
  static bool reads_along(const te::Compute& c) {
    bool along = false;
    te::visit_reads(c, [&](const Expr& e) {
      along = along || (!e->args.empty() && coefficient_of(e->args.back(), c.reduce_axes.back().name).value_or(0) == 1);
    });
    return along;
  }

  // Reductions that are not factored have their loops around vectors of the last axis: one row at a time.
  bool rows_may_share_tiles() const {
    return std::ranges::all_of(
        program_.computes, [&](const te::Compute& c) { return !c.is_reduction() || (is_factored(c) && is_scalar(c)); });
  }

  // What rows of one tile may keep: several stages and streams share the nearest level with it.
  int64_t shared_bytes() const {
    const int64_t near = target_.levels.empty() ? 0 : target_.levels.front().capacity_bytes;
    return near > 0 ? near / kStreamsInLevel : kStackBytes;
  }

  // Of the widest stage that stays in the tile.
  int64_t row_bytes() const {
    int64_t max = 0;
    for (const te::Compute& c : program_.computes) {
      if (c.name() != output_.name()) max = std::max(max, elements_of_row(c) * c.outputs[0].type.bytes());
    }
    return max;
  }

  int64_t elements_of_row(const te::Compute& c) const {
    return te::num_points({c.axes.begin() + static_cast<std::ptrdiff_t>(std::min(rows_, c.axes.size())), c.axes.end()});
  }

  // Of `each` values for each element of the stage.
  loop::Scope scope(const te::Compute& c, int64_t each = 1) const {
    const int64_t bytes = elements_of_row(c) * each * c.outputs[0].type.bytes() * tiling_.rows;
    return bytes <= kStackBytes ? loop::Scope::kStack : loop::Scope::kScratch;
  }

  double stage_cycles(const te::Compute& c) const {
    const auto points = static_cast<double>(elements_of_row(c) * te::num_points(c.reduce_axes));
    const bool scalar = c.is_reduction() && !is_factored(c) && c.axes.size() <= rows_;
    double cycles = cost::body_cycles(c);
    const double lane_cycles = is_factored(c) ? static_cast<double>(chains(c)) * 3 * std::log2(lanes(c)) : 0;
    if (schedule::calls_function(c))
      cycles = std::max(cycles, cost::kFunctionWaitCycles / static_cast<double>(tiling_.interleave));
    return lane_cycles + cycles * (scalar ? points : std::ceil(points / static_cast<double>(lanes(c))));
  }

  double wait_cycles(const te::Compute& c) const {
    if (!is_factored(c)) return cost::kLatencyCycles;
    double steps = static_cast<double>(ceil_div(vectors(c), chains(c)) + chains(c) - 1);
    for (size_t r = 0; r + 1 < c.reduce_axes.size(); ++r) steps *= static_cast<double>(c.reduce_axes[r].extent);
    // Halves of a vector meet by a shuffle and the combination.
    return cost::kLatencyCycles * (steps + 2 * std::log2(static_cast<double>(lanes(c))));
  }

  // Partial results: reductions outside; rows, chains and a vector inside. Then the sums over the lanes of each chain.
  void factored_loops(schedule::Schedule& s, const te::Compute& c) const {
    const std::string rf = partial(c);
    const std::string lane = fmt::format("i{}", c.axes.size());
    const std::string& row = c.axes[rows_ - 1].name;
    std::vector<std::string> order = te::axis_names(c.reduce_axes);
    if (tiling_.rows > 1) order.push_back(row);
    s.split(rf, lane, {lanes(c)});
    order.insert(order.end(), {lane + ".0", lane + ".1"});
    s.reorder(rf, order);
    s.split(c.name(), "r0", {lanes(c)});
    // Register buffers have constant indices.
    if (tiling_.rows > 1) {
      s.unroll(rf, row);
      s.unroll(c.name(), row + (c.name() == output_.name() ? ".1" : ""));
    }
    s.unroll(rf, lane + ".0");
    s.vectorize(rf, lane + ".1");
    s.unroll(c.name(), "r0.0");
    s.vectorize(c.name(), "r0.1");
  }

  void loops(schedule::Schedule& s, const te::Compute& c) const {
    if (c.axes.size() <= rows_ || c.axes.back().extent == 1) return;
    const std::string last = c.axes.back().name;
    const int64_t registers = schedule::calls_function(c) ? tiling_.interleave : c.is_reduction() ? 1 : kPlainVectors;
    const int64_t lanes = std::min<int64_t>(lanes_for(c, target_) * registers, c.axes.back().extent);
    if (lanes < 2) return;
    s.split(c.name(), last, {lanes});
    std::vector<std::string> order = {last + ".0"};
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    order.push_back(last + ".1");
    s.reorder(c.name(), order);
    s.vectorize(c.name(), last + ".1");
  }

  const te::Program& program_;
  const te::Compute& output_;
  size_t rows_;
  const std::set<std::string>& statistics_;
  const TargetInfo& target_;
  RowTiling tiling_;
};

}  // namespace

std::vector<RowTiling> row_tilings(const RowStages& stages, const TargetInfo& target) {
  return RowScheduler(stages, target).tilings();
}

double predict_ns(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target) {
  return RowScheduler(stages, target).predict_ns(tiling);
}

void schedule_rows(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target, const TilePlace& place,
                   schedule::Schedule& s) {
  RowScheduler(stages, target).run(s, tiling, place);
}

void schedule_row_turns(const RowStages& stages, const RowTiling& tiling, const TargetInfo& target,
                        const TilePlace& place, schedule::Schedule& s) {
  RowScheduler(stages, target).run_turns(s, tiling, place);
}

}  // namespace tw::construct
