#include "construct/cpu/contraction_tiles.h"

#include <cmath>
#include <random>
#include <tuple>

#include "construct/rtile.h"
#include "cost/nest.h"
#include "cost/units.h"
#include "expr/analyzer.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr size_t kRegisterTiles = 4;  // best ones by their issue cycles that are scaled up
constexpr int kTilesOfWidth = 2;      // best ones of each number of vectors that are scaled up, too
constexpr int kMaxAlike = 3;          // candidates that differ in their blocks only
constexpr size_t kTilesPerLevel = 3;  // rTiles kept for each memory level

struct Axes {
  std::vector<te::Axis> all;  // batch, rows, column, reductions
  size_t first_row = 0;
  size_t column = 0;
  size_t first_reduction = 0;
  size_t row_blocked() const { return column - (column - first_row > 1 ? 2 : 1); }
  size_t row_inner() const { return column - 1; }
  bool has_rows() const { return column > first_row; }
  bool has_two_rows() const { return column > first_row + 1; }
};

Axes axes_of(const ContractionProblem& p) {
  Axes axes;
  axes.all = p.match.batch;
  axes.first_row = axes.all.size();
  axes.all.insert(axes.all.end(), p.match.rows.begin(), p.match.rows.end());
  axes.column = axes.all.size();
  axes.all.push_back(p.match.column);
  axes.first_reduction = axes.all.size();
  axes.all.insert(axes.all.end(), p.reductions.begin(), p.reductions.end());
  return axes;
}

// B as panels: batch, reductions, columns contiguous.
cost::Access panel_access(const ContractionProblem& p, const Axes& axes) {
  cost::Access b = cost::make_access(p.program.tensor(p.match.b->name), p.match.b, axes.all);
  const int column = te::dim_of_axis(p.match.b, p.match.column.name);
  if (column >= 0) std::rotate(b.dims.begin() + column, b.dims.begin() + column + 1, b.dims.end());
  return b;
}

cost::Access output_access(const ContractionProblem& p, const Axes& axes) {
  const te::Tensor& out = p.match.compute->outputs[0];
  cost::Access access{out.name, out.type.bytes(), {}};
  for (const te::Axis& axis : p.match.compute->axes) {
    const auto at = std::ranges::find(axes.all, axis.name, &te::Axis::name);
    access.dims.push_back({axis.extent, {{static_cast<size_t>(at - axes.all.begin()), 1}}});
  }
  return access;
}

class Tiler {
 public:
  Tiler(const ContractionProblem& problem, const TargetInfo& target)
      : p_(problem), target_(target), axes_(axes_of(problem)) {
    nest_.axes = axes_.all;
    nest_.accesses = {cost::make_access(p_.program.tensor(p_.match.a->name), p_.match.a, axes_.all),
                      panel_access(p_, axes_), output_access(p_, axes_)};
    summed_share_ = summed_share();
    for (size_t a = 0; a < axes_.column; ++a) nonzero_shares_.push_back(a < axes_.first_row ? 1 : nonzero_share(a));
  }

  std::vector<ContractionTiling> run(size_t limit) {
    for (const RegisterTile& tile : register_tiles()) {
      for (const int64_t blocks : reduction_blocks(tile)) scale(tile, blocks);
    }
    std::ranges::stable_sort(found_, {}, &ContractionTiling::predicted_ns);
    return varied(limit);
  }

  std::vector<ContractionTiling> sample(size_t count, uint64_t seed) {
    constexpr size_t kTries = 20;  // for one tiling that was not drawn before: small problems have few
    std::mt19937_64 random(seed);
    const std::vector<RegisterTile> tiles = best_tiles(tile_problem(), target_, SIZE_MAX);
    for (size_t tries = 0; tries < kTries * count && found_.size() < count; ++tries) {
      const RegisterTile& tile = tiles[random() % tiles.size()];
      const std::vector<int64_t> blocks = reduction_blocks(tile);
      ContractionTiling t;
      t.tile = tile;
      t.reduction_blocks = blocks[random() % blocks.size()];
      t.column_tiles = log_uniform(random, column_tiles(tile));
      t.row_tiles = log_uniform(random, row_tiles(tile));
      t.columns_outside = random() % 2 == 0;
      t.columns_around = random() % 2 == 0;
      if (!seen_.insert(key(t)).second) continue;
      t.predicted_ns = predict(t);
      t.trace = {fmt::format("sampled from seed {}", seed)};
      found_.push_back(std::move(t));
    }
    return std::move(found_);
  }

  double predict(const ContractionTiling& t) const {
    return cost::run_ns(loops(t), arithmetic_ns(t), parallel_tiles(t), target_);
  }

  bool is_shared(const ContractionTiling& t) const {
    return cost::threads_pay(loops(t), arithmetic_ns(t), parallel_tiles(t), target_);
  }

 private:
  // The first ones, but not too many that share register tile and reduction, nor more than half of any first few with
  // sums in memory while there are others: where the model errs, it errs for all of them.
  std::vector<ContractionTiling> varied(size_t limit) const {
    std::vector<const ContractionTiling*> whole, blocked;  // by the reduction; best last
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> alike;
    for (const ContractionTiling& t : found_) {
      if (alike[{t.tile.outer, t.tile.inner, t.tile.vectors, t.reduction_blocks}]++ < kMaxAlike)
        (t.reduction_blocks > 1 ? blocked : whole).push_back(&t);
    }
    std::ranges::reverse(whole);
    std::ranges::reverse(blocked);
    std::vector<ContractionTiling> kept;
    size_t blocked_kept = 0;
    while (kept.size() < limit && !(whole.empty() && blocked.empty())) {
      const bool takes_blocked = whole.empty() || (!blocked.empty() && blocked_kept <= kept.size() / 2 &&
                                                   blocked.back()->predicted_ns < whole.back()->predicted_ns);
      auto& from = takes_blocked ? blocked : whole;
      kept.push_back(*from.back());
      kept.back().is_shared = is_shared(kept.back());
      from.pop_back();
      blocked_kept += takes_blocked ? 1 : 0;
    }
    return kept;
  }

  // In [1, most].
  static int64_t log_uniform(std::mt19937_64& random, int64_t max) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    return std::clamp<int64_t>(std::llround(std::pow(static_cast<double>(max), share)), 1, max);
  }

  int64_t extent(size_t axis) const { return axes_.all[axis].extent; }

  int64_t stride_bytes() const {
    if (!axes_.has_rows()) return 0;
    int64_t stride = nest_.accesses[0].element_bytes;
    const std::vector<cost::AccessDim>& dims = nest_.accesses[0].dims;
    for (size_t d = dims.size(); d-- > 0; stride *= dims[d].extent) {
      for (const auto& [axis, coefficient] : dims[d].terms) {
        if (axis == axes_.row_inner()) return stride * coefficient;
      }
    }
    return 0;
  }

  TileProblem tile_problem() const {
    TileProblem problem;
    problem.columns = p_.match.column.extent;
    problem.lanes = p_.lanes;
    problem.product = cost::product_cost(p_.match.words, target_);
    const bool widens =
        p_.match.a.type().is_float() && p_.match.a.type().bits() < p_.match.compute->body[0].type().bits();
    if (widens) problem.operand_cycles = cost::kWidenCycles;
    problem.a_is_vector = p_.match.a_uses_column;
    problem.row_stride = stride_bytes();
    if (axes_.has_rows()) problem.inner_rows = extent(axes_.row_inner());
    if (axes_.has_two_rows()) problem.outer_rows = extent(axes_.row_blocked());
    if (axes_.has_rows()) problem.inner_share = nonzero_shares_[axes_.row_inner()];
    if (axes_.has_two_rows()) problem.outer_share = nonzero_shares_[axes_.row_blocked()];
    problem.steps = reduction_steps();
    return problem;
  }

  size_t blocked_reduction_axis() const { return axes_.first_reduction + blocked_reduction(p_); }

  int64_t reduction_steps() const { return std::max<int64_t>(1, te::num_points(p_.reductions)); }

  // Those of fewest issue cycles, and some of every width: where a panel of B does not fit a cache, narrower ones move
  // fewer bytes for more issue cycles.
  std::vector<RegisterTile> register_tiles() const {
    std::vector<RegisterTile> kept;
    std::map<int64_t, int> of_width;
    for (const RegisterTile& tile : best_tiles(tile_problem(), target_, SIZE_MAX)) {
      if (of_width[tile.vectors]++ < kTilesOfWidth || kept.size() < kRegisterTiles) kept.push_back(tile);
    }
    return kept;
  }

  int64_t row_tiles(const RegisterTile& tile) const {
    return axes_.has_rows() ? ceil_div(extent(axes_.row_blocked()), blocked_rows(p_.match, tile)) : 1;
  }
  int64_t panel(const RegisterTile& tile) const { return tile.vectors * p_.lanes; }
  int64_t column_tiles(const RegisterTile& tile) const { return ceil_div(extent(axes_.column), panel(tile)); }

  // Into how many blocks the longest reduction may be split: not at all, and so that a panel of B, for all of the other
  // reductions, fits half of L1 or a quarter of L2, without more blocks than twice what that takes: lengths that few
  // numbers divide have short ones alone. Sums of one vector product are not split.
  std::vector<int64_t> reduction_blocks(const RegisterTile& tile) const {
    std::vector<int64_t> blocks = {1};
    const bool may_block = !p_.match.a_uses_column && !p_.reductions.empty() && target_.levels.size() > 2 &&
                           p_.match.compute->body[0].type().is_float() && !p_.match.words && row_tiles(tile) > 1;
    if (!may_block) return blocks;
    const size_t axis = blocked_reduction_axis();
    TileSpace space{nest_, std::vector<TileAxis>(axes_.all.size()), Multiplier::kCore, {}};
    space.axes[axis].role = AxisRole::kSteps;
    const int64_t bytes = reduction_steps() / extent(axis) * panel(tile) * nest_.accesses[1].element_bytes;
    for (const int64_t room : {target_.levels[0].capacity_bytes / 2, target_.levels[1].capacity_bytes / 4}) {
      const auto fits = [&](int64_t steps) { return steps * bytes <= room; };
      const int64_t steps = largest_aligned_size(space, {RTile(axes_.all.size(), 1)}, axis, fits);
      const int64_t n = steps == 0 ? 1 : extent(axis) / steps;
      const bool few = n <= 2 * ceil_div(extent(axis) * bytes, room);
      if (few && std::ranges::find(blocks, n) == blocks.end()) blocks.push_back(n);
    }
    return blocks;
  }

  // Of all products the share that is summed.
  double summed_share() const {
    if (!p_.match.condition) return 1;
    double all = static_cast<double>(reduction_steps());
    for (size_t a = 0; a < axes_.first_reduction; ++a) all *= static_cast<double>(extent(a));
    return all > 0 ? schedule::count_products(p_.match) / all : 1;
  }

  // Of the products along one row axis the share whose operand lies inside of its padding; the others are skipped where
  // a tile has one row of the axis, and enough steps lie inside the test.
  double nonzero_share(size_t row) const {
    constexpr int64_t kMaxPoints = 4096;
    const auto find = [&](const std::string& tensor) { return p_.program.find_compute(tensor); };
    const std::vector<Expr> tests = filtered(te::nonzero_conditions(*p_.match.compute, find),
                                             [&](const Expr& c) { return uses_var(c, axes_.all[row].name); });
    std::vector<te::Axis> deciding = {axes_.all[row]};
    int64_t points = extent(row);
    int64_t inside = 1;
    for (const te::Axis& r : p_.reductions) {
      inside *= r.extent;
      if (std::ranges::none_of(tests, [&](const Expr& c) { return uses_var(c, r.name); })) continue;
      deciding.push_back(r);
      points *= r.extent;
      inside = 1;
    }
    if (tests.empty() || points > kMaxPoints || inside < te::kMinTestedSteps) return 1;
    const Analyzer analyzer;
    const int64_t nonzero = schedule::count_points(deciding, [&](const VarMap& point) {
      return std::ranges::all_of(tests,
                                 [&](const Expr& c) { return analyzer.simplify(substitute(c, point)).is_int(1); });
    });
    return static_cast<double>(nonzero) / static_cast<double>(points);
  }

  // What blocks of the reduction cost on the tiled axes: adding sums to memory, and the loops over the filter positions
  // of a window once more for each tile and block.
  double block_cycles(const ContractionTiling& t) const {
    int64_t rows = axes_.has_rows() ? extent(axes_.row_inner()) : 1;
    if (axes_.has_two_rows()) rows *= extent(axes_.row_blocked());
    const int64_t sums = rows * column_tiles(t.tile) * t.tile.vectors;
    const int64_t filter_positions = reduction_steps() / extent(blocked_reduction_axis());
    return cost::kAccumulateCycles * static_cast<double>(sums * t.reduction_blocks) +
           cost::kPositionLoopCycles *
               static_cast<double>((filter_positions - 1) * plane_tiles(t) * (t.reduction_blocks - 1));
  }

  double arithmetic_ns(const ContractionTiling& t) const {
    double cycles = t.tile.cycles * static_cast<double>(reduction_steps()) * summed_share_;
    if (t.reduction_blocks > 1) cycles += block_cycles(t);
    for (size_t a = 0; a < axes_.column; ++a) {
      const bool tiled = axes_.has_rows() && (a == axes_.row_inner() || a == axes_.row_blocked());
      if (!tiled) cycles *= static_cast<double>(extent(a)) * nonzero_shares_[a];
    }
    return cycles * cost::issue_cycle_ns(target_, p_.lanes);
  }

  int64_t row_blocks(const ContractionTiling& t) const { return ceil_div(row_tiles(t.tile), t.row_tiles); }
  int64_t column_blocks(const ContractionTiling& t) const { return ceil_div(column_tiles(t.tile), t.column_tiles); }

  // Register tiles along the tiled axes.
  int64_t plane_tiles(const ContractionTiling& t) const {
    const int64_t inner = axes_.has_two_rows() ? ceil_div(extent(axes_.row_inner()), t.tile.inner) : 1;
    return row_tiles(t.tile) * inner * column_tiles(t.tile);
  }

  // Tiles that threads share: whole blocks when their sums are stored in memory, else register tiles.
  int64_t parallel_tiles(const ContractionTiling& t) const {
    int64_t tiles = 1;
    for (size_t a = 0; a < axes_.column; ++a) {
      const bool blocked = axes_.has_rows() && (a == axes_.row_blocked() || a == axes_.row_inner());
      if (!blocked) tiles *= extent(a);
    }
    if (t.reduction_blocks > 1) return tiles * row_blocks(t) * column_blocks(t);
    return tiles * plane_tiles(t);
  }

  cost::Nest loops(const ContractionTiling& t) const {
    cost::Nest nest = nest_;
    const auto add = [&](size_t axis, int64_t trips, int64_t step) { nest.loops.push_back({axis, trips, step}); };
    const auto pair = [&](bool columns_first, const auto& columns, const auto& rows) {
      if (columns_first) columns();
      rows();
      if (!columns_first) columns();
    };
    const int64_t unit = blocked_rows(p_.match, t.tile);
    for (size_t a = 0; a < axes_.first_row; ++a) add(a, extent(a), 1);
    pair(
        t.columns_outside, [&] { add(axes_.column, column_blocks(t), t.column_tiles * panel(t.tile)); },
        [&] {
          for (size_t a = axes_.first_row; axes_.has_rows() && a < axes_.row_blocked(); ++a) add(a, extent(a), 1);
          if (axes_.has_rows()) add(axes_.row_blocked(), row_blocks(t), t.row_tiles * unit);
        });
    const auto steps = [&](size_t a) {
      return ceil_div(extent(a), a == blocked_reduction_axis() ? t.reduction_blocks : 1);
    };
    if (t.reduction_blocks > 1) add(blocked_reduction_axis(), t.reduction_blocks, steps(blocked_reduction_axis()));
    pair(
        t.columns_around, [&] { add(axes_.column, t.column_tiles, panel(t.tile)); },
        [&] {
          if (axes_.has_rows()) add(axes_.row_blocked(), t.row_tiles, unit);
          if (axes_.has_two_rows())
            add(axes_.row_inner(), ceil_div(extent(axes_.row_inner()), t.tile.inner), t.tile.inner);
        });
    for (size_t a = axes_.first_reduction; a < axes_.all.size(); ++a) add(a, steps(a), 1);
    if (axes_.has_rows()) add(axes_.row_blocked(), unit, 1);
    if (axes_.has_two_rows()) add(axes_.row_inner(), t.tile.inner, 1);
    add(axes_.column, panel(t.tile), 1);
    return nest;
  }

  // Blocks for L2 and for L3, by scale-up from one register tile with all of the reduction block.
  void scale(const RegisterTile& tile, int64_t blocks) {
    TileSpace space{nest_, std::vector<TileAxis>(axes_.all.size()), Multiplier::kCore, {}};
    RTile registers(axes_.all.size(), 1);
    for (size_t a = axes_.first_reduction; a < registers.size(); ++a) registers[a] = extent(a);
    if (blocks > 1) registers[blocked_reduction_axis()] = ceil_div(extent(blocked_reduction_axis()), blocks);
    space.axes[axes_.column].role = AxisRole::kColumns;
    registers[axes_.column] = panel(tile);
    if (axes_.has_two_rows()) registers[axes_.row_inner()] = extent(axes_.row_inner());
    if (axes_.has_rows()) {
      space.axes[axes_.row_blocked()].role = AxisRole::kRows;
      registers[axes_.row_blocked()] = blocked_rows(p_.match, tile);
    }
    double points = 1;
    for (size_t a = 0; a < axes_.first_reduction; ++a) points *= static_cast<double>(std::max<int64_t>(1, extent(a)));
    space.ns_per_point = tile.cycles * cost::issue_cycle_ns(target_, p_.lanes) / points;
    for (size_t level = 1; level + 1 < target_.levels.size(); ++level) {
      const MemoryLevel& cache = target_.levels[level];
      const double share = cost::kCacheShare / (cache.shared ? std::max(1, target_.compute_units) : 1);
      const auto capacity = static_cast<int64_t>(share * static_cast<double>(cache.capacity_bytes));
      const auto fits = [&](const RTiles& t) {
        return cost::footprint_bytes(nest_, t.back(), space.line_bytes) <= capacity;
      };
      space.levels = {{cache.name, fits, std::max(1.0, target_.levels[level + 1].read_per_ns)}};
      for (const RTiles& tiles : scale_up(space, {registers, registers}, kTilesPerLevel))
        keep(tile, blocks, tiles.back(), cache.name);
    }
    if (axes_.has_rows()) registers[axes_.row_blocked()] = extent(axes_.row_blocked());
    keep(tile, blocks, registers, "all rows");
  }

  void keep(const RegisterTile& tile, int64_t blocks, const RTile& block, const std::string& level) {
    double block_ns = 0;
    for (int order = 0; order < 4; ++order) {
      ContractionTiling t;
      t.tile = tile;
      t.reduction_blocks = blocks;
      t.column_tiles = std::min(column_tiles(tile), ceil_div(block[axes_.column], panel(tile)));
      if (axes_.has_rows())
        t.row_tiles = std::min(row_tiles(tile), ceil_div(block[axes_.row_blocked()], blocked_rows(p_.match, tile)));
      // A loop of one iteration has no order.
      t.columns_outside = (order & 1) == 0 || column_blocks(t) == 1 || row_blocks(t) == 1;
      t.columns_around = (order & 2) == 0 || t.column_tiles == 1 || t.row_tiles == 1;
      if (!seen_.insert(key(t)).second) continue;
      t.predicted_ns = predict(t);
      if (t.predicted_ns == block_ns)
        continue;  // the model sees no difference between two orders: the first stands for both
      block_ns = t.predicted_ns;
      t.trace = {fmt::format("registers: {} x {} rows, {} vectors of {}: {:.0f} issue cycles a step", tile.outer,
                             tile.inner, tile.vectors, p_.lanes, tile.cycles),
                 fmt::format("{}: {} x {} register tiles, reduction in {} blocks, {} outside, {} around", level,
                             t.row_tiles, t.column_tiles, blocks, t.columns_outside ? "columns" : "rows",
                             t.columns_around ? "columns" : "rows")};
      found_.push_back(std::move(t));
    }
  }

  static std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool> key(const ContractionTiling& t) {
    return {t.tile.outer, t.tile.inner,       t.tile.vectors,    t.column_tiles,
            t.row_tiles,  t.reduction_blocks, t.columns_outside, t.columns_around};
  }

  const ContractionProblem& p_;
  const TargetInfo& target_;
  Axes axes_;
  cost::Nest nest_;
  double summed_share_ = 1;
  std::vector<double> nonzero_shares_;  // by batch and row axis
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool>> seen_;
  std::vector<ContractionTiling> found_;
};

}  // namespace

const te::Axis* blocked_row(const schedule::Contraction& match) {
  const size_t rows = match.rows.size();
  return rows == 0 ? nullptr : &match.rows[rows > 1 ? rows - 2 : 0];
}

int64_t blocked_rows(const schedule::Contraction& match, const RegisterTile& tile) {
  return match.rows.size() > 1 ? tile.outer : tile.inner;
}

size_t blocked_reduction(const ContractionProblem& problem) {
  const auto longest = std::ranges::max_element(problem.reductions, {}, &te::Axis::extent);
  return problem.reductions.empty() ? 0 : static_cast<size_t>(longest - problem.reductions.begin());
}

std::vector<ContractionTiling> tile_contraction(const ContractionProblem& problem, const TargetInfo& target,
                                                size_t limit) {
  return Tiler(problem, target).run(limit);
}

std::vector<ContractionTiling> sample_tilings(const ContractionProblem& problem, const TargetInfo& target, size_t count,
                                              uint64_t seed) {
  return Tiler(problem, target).sample(count, seed);
}

}  // namespace tw::construct
