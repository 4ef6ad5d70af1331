// A product of matrices whose rows a reduction combines: the gradient of a bias beside what it is added to. A tile
// computes a part of the rows for a block of columns as contraction.cpp does, in scratch memory near the unit; from
// there the rows go to memory, where they leave the group, and are combined. Memory gets a row of each part, which a
// small second kernel combines as columns.cpp does.
#include <algorithm>

#include "construct/column_sums.h"
#include "construct/cpu/contraction_loops.h"
#include "construct/cpu/contraction_operands.h"
#include "construct/elementwise.h"
#include "cost/units.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Contraction;
using schedule::ReducedProduct;

constexpr size_t kTilings = 16;     // of the product, of which those that split no reduction are taken
constexpr size_t kPartCounts = 2;   // that are tried for each
constexpr int64_t kMaxVectors = 8;  // of sums in registers

// Rows and columns of a tile.
struct TileExtents {
  int64_t count = 1, rows = 1, columns = 1;
};

// The product of one tile, or of all rows: `program` holds the segment alone.
struct Rows {
  te::Program program;
  Contraction match;
  std::vector<te::Axis> reductions;
  int lanes = 1;
  ContractionProblem problem() const { return {program, match, reductions, lanes}; }
};

class ReducedRows {
 public:
  ReducedRows(const GroupTask& task, const ReducedProduct& match, const TargetInfo& target)
      : task_(task), match_(match), target_(target), segment_(match.segment) {
    base_.constant_layouts = match.layouts;
    value_ = segment_.output();
    program_ =
        schedule::inline_stages(base_.schedule, match.program, [&](const auto& c) { return c.name() == value_; });
    std::erase_if(segment_.stages, [&](const auto& stage) { return program_.find_compute(stage) == nullptr; });
    if (program_.is_output(value_)) {
      stored_ = keep_rows(program_, base_.schedule, segment_);
      value_ = segment_.output();
    }
  }

  /// Declined where what the product reads, computed where it is read, is no product's operand any more.
  Result<Contraction> product() const { return schedule::match_contraction(*program_.find_compute(segment_.sum)); }

  Candidates run() const {
    const Rows whole = rows_of(schedule::segment_program(program_, segment_));
    Candidates candidates;
    for (const ContractionTiling& tiling : tile_contraction(whole.problem(), target_, kTilings)) {
      if (tiling.reduction_blocks > 1) continue;
      const int64_t rows = whole.match.rows[0].extent, wanted = ceil_div(rows, tiling.row_tiles * tiling.tile.inner);
      for (const int64_t parts : part_counts(rows, wanted, kPartCounts)) {
        if (std::optional<Construction> built = construct(whole, tiling, parts))
          candidates.push_back(std::move(*built));
      }
    }
    return best_distinct(std::move(candidates));
  }

 private:
  Rows rows_of(te::Program program) const {
    Rows out{std::move(program), {}, {}, 1};
    out.match = *schedule::match_contraction(*out.program.find_compute(segment_.sum));
    out.reductions = schedule::reduction_order(out.program, out.match);
    const int64_t lanes = target_.lanes(out.program.tensor(segment_.sum).type);
    out.lanes = static_cast<int>(std::min<int64_t>(lanes, out.match.column.extent));
    return out;
  }

  // The product of one tile.
  Rows tile_of(const Rows& whole, const TileExtents& part) const {
    te::Program program = whole.program;
    for (te::Compute& c : program.computes) {
      for (auto [d, extent] : {std::pair(match_.rows.front(), part.rows), std::pair(c.axes.size() - 1, part.columns)}) {
        c.axes[d].extent = extent;
        for (te::Tensor& out : c.outputs) out.shape[d] = extent;
      }
    }
    Rows out = rows_of(std::move(program));
    out.lanes = whole.lanes;
    return out;
  }

  std::optional<Construction> construct(const Rows& whole, ContractionTiling tiling, int64_t parts) const {
    const int64_t width = tiling.tile.vectors * whole.lanes, rows = whole.match.rows[0].extent;
    TileExtents part{parts, rows / parts, tiling.column_tiles * width};
    const int64_t bytes = program_.tensor(value_).type.bytes();
    const double room = target_.levels.size() < 2
                            ? static_cast<double>(part.rows * width * bytes)
                            : cost::kKeptShare * static_cast<double>(target_.levels[1].capacity_bytes);
    while (tiling.column_tiles > 1 && static_cast<double>(part.rows * part.columns * bytes) > room) {
      tiling.column_tiles = ceil_div(tiling.column_tiles, 2);
      part.columns = tiling.column_tiles * width;
    }
    if (static_cast<double>(part.rows * part.columns * bytes) > room) return std::nullopt;
    tiling.row_tiles = ceil_div(part.rows, tiling.tile.inner);
    Construction out = base_;
    const Panels panels = place_b(whole.problem(), tiling, task_, target_, out);
    if (panels.copy) schedule_stage(out.schedule, whole.program, {&*panels.copy}, target_);
    const std::optional<std::string> root = split(parts, out.schedule);
    if (!root) return std::nullopt;
    schedule_tile(whole, tiling, part, *root, panels, out);
    const double ragged = static_cast<double>(round_up(part.rows, tiling.tile.inner) * parts) /
                          static_cast<double>(round_up(rows, tiling.tile.inner));
    const auto vectors = static_cast<double>(rows * ceil_div(whole.match.column.extent, whole.lanes));
    out.predicted_ns = tiling.predicted_ns * ragged + vectors * cost::kCombineCycles *
                                                          cost::issue_cycle_ns(target_, whole.lanes) /
                                                          std::max(1, target_.compute_units);
    out.trace = {fmt::format("{} parts of {} rows, {} columns a tile; registers: {} rows, {} vectors", parts, part.rows,
                             part.columns, tiling.tile.inner, tiling.tile.vectors)};
    return out;
  }

  // The reduction in parts, with the kernel that combines them; returns what owns the tiles.
  std::optional<std::string> split(int64_t parts, schedule::Schedule& s) const {
    const te::Compute& reduction = *program_.find_compute(match_.reduction);
    if (parts == 1) {
      for (const te::Compute& c : program_.computes) {
        if (te::depends_on(program_, c, match_.reduction) && c.name() != match_.output) s.inline_stage(c.name());
      }
      if (match_.output == match_.reduction) s.cache_write(match_.output);
      return match_.output;
    }
    schedule::Schedule in_parts;
    const std::string root = cut_sum(in_parts, reduction, reduction.reduce_axes.front().name, parts);
    const te::Program combined = schedule::rewritten(without_rows(program_, stored_), in_parts);
    const te::Program rest = adding_program(combined, root, match_.reduction, {match_.output});
    const Result<Candidates> adding = construct_columns({rest, {}}, target_);
    if (!adding.ok()) return std::nullopt;
    for (const schedule::Schedule& all : {in_parts, adding->front().schedule}) {
      for (const schedule::Primitive& p : all.primitives()) s.add(p);
    }
    s.cache_write(root);
    return root;
  }

  void schedule_tile(const Rows& whole, const ContractionTiling& tiling, const TileExtents& part,
                     const std::string& root, const Panels& panels, Construction& out) const {
    schedule::Schedule& s = out.schedule;
    const bool copies = part.count > 1 || root == match_.reduction;
    const std::string sums = copies ? root + ".acc" : match_.reduction;
    const std::string row = program_.find_compute(match_.reduction)->reduce_axes.front().name;
    // The layout of a part's sums names its axes anew.
    const std::string column = part.count > 1 ? "i1" : program_.find_compute(match_.reduction)->axes.back().name;
    const int64_t vectors = part.columns / whole.lanes, lanes = whole.lanes;
    int64_t together = std::min(vectors, kMaxVectors);
    while (vectors % together != 0) --together;
    s.split(root, column, {vectors / together, together, lanes});
    std::vector<std::string> tiles = {column + ".0"};
    if (part.count > 1) tiles.insert(tiling.columns_outside ? tiles.end() : tiles.begin(), "i0");
    std::vector<std::string> loops = tiles;
    loops.insert(loops.end(), {column + ".1", column + ".2", column + ".3"});
    s.reorder(root, loops).unroll(root, column + ".2").vectorize(root, column + ".3").parallel(root, tiles);
    s.compute_at(sums, root, column + ".1", loop::Scope::kRegister);
    s.split(sums, column, {lanes});
    std::vector<std::string> order = {row, column + ".0", column + ".1"};
    if (part.count > 1) order.insert(order.begin(), "i0");
    s.reorder(sums, order).unroll(sums, column + ".0").vectorize(sums, column + ".1");
    if (!stored_.empty()) {
      s.write_at(stored_, root, tiles.back());
      const std::string stored_column = program_.find_compute(stored_)->axes.back().name;
      s.split(stored_, stored_column, {lanes}).vectorize(stored_, stored_column + ".1");
    }
    const Rows tile = tile_of(whole, part);
    ContractionTiling inside = tiling;
    inside.columns_outside = inside.columns_around = true;
    TilePlace place;
    place.consumer = root, place.loop = tiles.back();
    schedule_contraction({tile.problem(), inside, value_, panels, place}, s);
  }

  const GroupTask& task_;
  const ReducedProduct& match_;
  const TargetInfo& target_;
  Construction base_;
  schedule::ChainSegment segment_;
  te::Program program_;         // what is read once inlined
  std::string value_, stored_;  // the rows in a tile; where they leave the group, what they are stored to
};

}  // namespace

Result<Candidates> construct_reduced(const GroupTask& task, const TargetInfo& target) {
  const Result<ReducedProduct> match = schedule::match_combined_rows(task.program);
  if (!match.ok()) return Reason{match.reason()};
  if (const std::string reason = schedule::why_near_declined(*match); !reason.empty()) return declined("{}", reason);
  const ReducedRows rows(task, *match, target);
  if (const Result<Contraction> product = rows.product(); !product.ok()) return Reason{product.reason()};
  Candidates candidates = rows.run();
  if (candidates.empty()) return declined("no tile near a unit holds rows of {}", match->segment.sum);
  return candidates;
}

}  // namespace tw::construct
