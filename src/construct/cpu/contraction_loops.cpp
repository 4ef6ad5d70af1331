#include "construct/cpu/contraction_loops.h"

#include "construct/cpu/epilogue.h"
#include "construct/elementwise.h"
#include "support/join.h"
#include "support/math.h"

namespace tw::construct {
namespace {

using schedule::Schedule;
using Names = std::vector<std::string>;

constexpr int64_t kReductionUnroll = 4;  // more does not fit the decoded-instruction cache, less shows loop overhead
constexpr int64_t kUnrolledFmas = 48;    // a window with no more products a tile has no loop at all
constexpr int64_t kTileFmas = 512;       // vector products that hide the entry of a parallel tile
constexpr int64_t kMinTiles = 64;        // shorter tiles rather than idle threads
constexpr int64_t kPanelsPerCore = 8;    // so that cores which share panels end together

// Loops of one stage after its axes were tiled; absent levels are empty.
struct TiledLoops {
  Names row_blocks, row_tiles, row_points;
  Names column_block, column_tile;
  std::string vectors, lanes;
};

class ContractionScheduler {
 public:
  ContractionScheduler(const ContractionLoops& loops, Schedule& s)
      : p_(loops.problem),
        t_(loops.tiling),
        place_(loops.place),
        output_(loops.output),
        panels_(loops.panels),
        sum_(p_.match.compute->name()),
        s_(s) {}

  std::string run() {
    if (t_.reduction_blocks == 1) return direct();
    blocked();
    return "";
  }

 private:
  bool has_epilogue() const { return output_ != sum_; }
  const std::string& column() const { return p_.match.column.name; }
  int64_t unit() const { return blocked_rows(p_.match, t_.tile); }

  static Names ordered(bool columns_first, const Names& columns, const Names& rows) {
    return columns_first ? joined(columns, rows) : joined(rows, columns);
  }

  int64_t column_blocks() const {
    return ceil_div(p_.match.column.extent, t_.column_tiles * t_.tile.vectors * p_.lanes);
  }

  // One tile after the other, all of the reduction in each.
  std::string direct() {
    if (!has_epilogue()) s_.cache_write(sum_);
    if (!place_.consumer.empty()) s_.compute_at(output_, place_.consumer, place_.loop, loop::Scope::kScratch);
    const TiledLoops tiled = tile_stage(output_, true);
    const Names blocks = joined(axis_names(p_.match.batch), tiled.row_blocks);
    const Names tiles =
        joined(axis_names(p_.match.batch), ordered(t_.columns_outside, tiled.column_block, tiled.row_blocks),
               ordered(t_.columns_around, tiled.column_tile, tiled.row_tiles));
    points(output_, tiles, tiled);
    const Names panels = joined(axis_names(p_.match.batch), tiled.column_block, tiled.column_tile);
    if (place_.consumer.empty())
      share(output_, place_.shares_blocks ? blocks : panels_.inside ? panels : parallel_loops(tiles));
    epilogue(tiles.back(), axis_names(p_.match.rows));
    accumulate(has_epilogue() ? sum_ : sum_ + ".acc", output_, tiles.back(), {});
    if (panels_.inside) pack(panels.back());
    return blocks.empty() ? "" : blocks.back();
  }

  // Iterations of these loops are tiles that threads share.
  void share(const std::string& stage, const Names& loops) {
    if (t_.is_shared) s_.parallel(stage, loops);
  }

  void pack(const std::string& loop) {
    s_.compute_at(panels_.copy->name(), output_, loop, loop::Scope::kScratch);
    const std::string& columns = panels_.copy->axes.back().name;
    s_.split(panels_.copy->name(), columns, {p_.lanes});
    s_.vectorize(panels_.copy->name(), columns + ".1");
  }

  // The loops among `tiles`, of the output stage, that threads share: all, or without the innermost ones while a tile
  // is too short to hide its entry.
  Names parallel_loops(Names tiles) const {
    int64_t fmas = t_.tile.outer * t_.tile.inner * t_.tile.vectors * te::num_points(p_.reductions);
    int64_t count = 1;
    for (const std::string& loop : tiles) count *= trips(loop);
    while (tiles.size() > 1) {
      const int64_t inner = trips(tiles.back());
      if (fmas >= kTileFmas || count / inner < kMinTiles) break;
      tiles.pop_back();
      fmas *= inner;
      count /= inner;
    }
    return tiles;
  }

  // Iterations of a loop of the output stage around its register tiles, at most.
  int64_t trips(const std::string& loop) const {
    const std::string axis = loop.substr(0, loop.find('.'));
    int64_t unit = 1;
    if (axis == column()) unit = t_.tile.vectors * p_.lanes;
    if (!p_.match.rows.empty() && axis == p_.match.rows.back().name) unit = t_.tile.inner;
    if (blocked_row(p_.match) != nullptr && axis == blocked_row(p_.match)->name) unit = this->unit();
    const auto found = std::ranges::find(p_.match.compute->axes, axis, &te::Axis::name);
    return found == p_.match.compute->axes.end() ? 1 : ceil_div(found->extent, unit);
  }

  // Sums of a block are stored in memory while blocks of the reduction pass over it.
  void blocked() {
    s_.rfactor_blocks(sum_, p_.reductions[blocked_reduction(p_)].name, t_.reduction_blocks);
    Names outer = axis_names(p_.match.batch);
    if (has_epilogue()) outer = block_output();
    const TiledLoops tiled = tile_stage(sum_, !has_epilogue());
    const Names blocks =
        joined(axis_names(p_.match.batch), ordered(t_.columns_outside, tiled.column_block, tiled.row_blocks));
    const Names tiles = joined(blocks, Names{"r0"}, ordered(t_.columns_around, tiled.column_tile, tiled.row_tiles));
    points(sum_, tiles, tiled);
    if (!has_epilogue() && !blocks.empty()) share(sum_, blocks);
    const std::string block_number = "i" + std::to_string(p_.match.compute->axes.size());
    accumulate(sum_ + ".rf", sum_, tiles.back(), {block_number});
  }

  // The output of an epilogue that runs block by block, with the block's sums in the thread's scratch area.
  Names block_output() {
    s_.split(output_, column(), {t_.column_tiles * t_.tile.vectors, p_.lanes});
    const std::string blocked_axis = blocked_row(p_.match)->name;
    s_.split(output_, blocked_axis, {t_.row_tiles * unit()});
    Names row_blocks, row_points;
    for (const te::Axis& row : p_.match.rows) {
      if (row.name == blocked_axis) {
        row_blocks.push_back(row.name + ".0");
        row_points.push_back(row.name + ".1");
      } else {
        (row_points.empty() ? row_blocks : row_points).push_back(row.name);
      }
    }
    const Names blocks = joined(axis_names(p_.match.batch), ordered(t_.columns_outside, {column() + ".0"}, row_blocks));
    s_.reorder(output_, joined(blocks, row_points, Names{column() + ".1", column() + ".2"}));
    s_.vectorize(output_, column() + ".2");
    share(output_, blocks);
    epilogue(column() + ".1", {});
    s_.compute_at(sum_, output_, blocks.back(), loop::Scope::kScratch);
    return blocks;
  }

  TiledLoops tile_stage(const std::string& stage, bool with_blocks) {
    TiledLoops tiled;
    tile_columns(stage, with_blocks && column_blocks() > 1 && t_.column_tiles > 1, tiled);
    for (const te::Axis& row : p_.match.rows) tile_row(stage, row, with_blocks, tiled);
    return tiled;
  }

  void tile_columns(const std::string& stage, bool two_levels, TiledLoops& tiled) {
    std::vector<int64_t> factors = {t_.tile.vectors, p_.lanes};
    if (two_levels) factors.insert(factors.begin(), t_.column_tiles);
    s_.split(stage, column(), factors);
    size_t level = 0;
    const auto next = [&] { return column() + "." + std::to_string(level++); };
    if (two_levels || t_.column_tiles == 1) tiled.column_block = {next()};
    if (two_levels || t_.column_tiles > 1) tiled.column_tile = {next()};
    tiled.vectors = next();
    tiled.lanes = next();
  }

  void tile_row(const std::string& stage, const te::Axis& row, bool with_blocks, TiledLoops& tiled) {
    const bool innermost = row.name == p_.match.rows.back().name;
    const bool blocked_axis = row.name == blocked_row(p_.match)->name;
    if (!innermost && !blocked_axis) {
      (tiled.row_points.empty() ? tiled.row_blocks : tiled.row_tiles).push_back(row.name);
      return;
    }
    const int64_t size = blocked_axis ? unit() : t_.tile.inner;
    const bool has_blocks = t_.row_tiles * size < row.extent || place_.shares_blocks;
    const bool two_levels = with_blocks && blocked_axis && has_blocks;
    s_.split(stage, row.name, two_levels ? std::vector<int64_t>{t_.row_tiles, size} : std::vector<int64_t>{size});
    if (two_levels) tiled.row_blocks.push_back(row.name + ".0");
    tiled.row_tiles.push_back(row.name + (two_levels ? ".1" : ".0"));
    tiled.row_points.push_back(row.name + (two_levels ? ".2" : ".1"));
  }

  // Orders the loops of a stage and marks those inside a tile.
  void points(const std::string& stage, const Names& tiles, const TiledLoops& tiled) {
    s_.reorder(stage, joined(tiles, tiled.row_points, Names{tiled.vectors, tiled.lanes}));
    for (const std::string& point : tiled.row_points) s_.unroll(stage, point);
    s_.unroll(stage, tiled.vectors);
    s_.vectorize(stage, tiled.lanes);
  }

  void epilogue(const std::string& loop, const Names& rows) {
    schedule_epilogue(p_.program, {sum_, output_, loop, rows, column(), p_.lanes}, s_);
  }

  // Vector products of one register tile over a whole window; a single reduction is no window.
  int64_t window_fmas() const {
    if (p_.reductions.size() < 2) return kUnrolledFmas + 1;
    int64_t fmas = t_.tile.outer * t_.tile.inner * t_.tile.vectors;
    for (size_t r = 0; r < p_.reductions.size(); ++r) fmas *= steps(r);
    return fmas;
  }

  // Of reduction `r` inside a block.
  int64_t steps(size_t r) const {
    return p_.reductions[r].extent / (r == blocked_reduction(p_) ? t_.reduction_blocks : 1);
  }

  // The reduction loops of `stage`, the innermost one split for unrolling.
  Names reductions(const std::string& stage) {
    Names loops = axis_names(p_.reductions);
    if (loops.empty()) return loops;
    if (window_fmas() <= kUnrolledFmas) {
      for (const std::string& loop : loops) s_.unroll(stage, loop);
      return loops;
    }
    const std::string inner = loops.back();
    s_.split(stage, inner, {std::min(steps(p_.reductions.size() - 1), kReductionUnroll)});
    s_.unroll(stage, inner + ".1");
    loops.back() = inner + ".0";
    loops.push_back(inner + ".1");
    return loops;
  }

  // `stage` sums in registers inside loop `tile` of `consumer`; `outer` are loops of one iteration.
  void accumulate(const std::string& stage, const std::string& consumer, const std::string& tile, const Names& outer) {
    s_.compute_at(stage, consumer, tile, loop::Scope::kRegister);
    s_.split(stage, column(), {p_.lanes});
    const Names rows = axis_names(p_.match.rows);
    const Names order =
        joined(axis_names(p_.match.batch), outer, reductions(stage), rows, Names{column() + ".0", column() + ".1"});
    s_.reorder(stage, order);
    for (const std::string& row : rows) s_.unroll(stage, row);
    s_.unroll(stage, column() + ".0");
    s_.vectorize(stage, column() + ".1");
    if (p_.match.compute->body[0].type().is_float() && !p_.match.words)
      s_.tensorize(stage, order.front(), "fma_tile", {});
    prefetch_panel(stage, consumer, tile);
  }

  // While one panel of B is used by the tiles of a block, the next one comes nearer: in a window, for each filter
  // position the part of it that the filter position reads.
  void prefetch_panel(const std::string& stage, const std::string& consumer, const std::string& tile) {
    if (!panels_.streams || panels_.inside || p_.reductions.empty() || window_fmas() <= kUnrolledFmas) return;
    constexpr int64_t kMaxLines = 2;  // in an iteration: more of them take issue cycles from the products
    const te::Axis& inner = p_.reductions.back();
    const int64_t inner_steps = steps(p_.reductions.size() - 1);
    const int64_t width = t_.tile.vectors * p_.lanes;
    const int64_t panel = width * te::num_points(p_.reductions);
    Names loops = {inner.name + ".0"};
    int64_t iterations = ceil_div(inner_steps, kReductionUnroll);
    if (!p_.match.rows.empty() && tile.starts_with(p_.match.rows.back().name + ".")) {
      loops.insert(loops.end(), {consumer, tile});
      iterations *= p_.match.rows.size() > 1 ? trips(tile) : t_.row_tiles;
    }
    const int64_t lines = ceil_div(inner_steps * width, iterations * panels_.line);
    if (lines <= kMaxLines) s_.prefetch(stage, loops, panels_.tensor, {panel, lines, panels_.line});
  }

  const ContractionProblem& p_;
  const ContractionTiling& t_;
  const TilePlace& place_;
  std::string output_;
  Panels panels_;
  std::string sum_;
  Schedule& s_;
};

}  // namespace

bool packs_inside(const ContractionProblem& problem, const ContractionTiling& t, const TargetInfo& target) {
  const schedule::Contraction& match = problem.match;
  const te::Axis* blocked = blocked_row(match);
  if (blocked == nullptr || match.rows.size() > 2 || t.reduction_blocks > 1) return false;
  if (t.row_tiles * blocked_rows(match, t.tile) < blocked->extent || !t.columns_outside || !t.columns_around)
    return false;
  const int64_t panels = ceil_div(match.column.extent, t.tile.vectors * problem.lanes);
  return panels * te::num_points(match.batch) >= kPanelsPerCore * std::max(1, target.compute_units);
}

std::string schedule_contraction(const ContractionLoops& loops, Schedule& s) {
  return ContractionScheduler(loops, s).run();
}

}  // namespace tw::construct
