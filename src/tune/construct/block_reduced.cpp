// Contractions whose rows a reduction combines (schedule/reduced_product.h), on devices whose tiles have threads. A
// tile computes all rows of a part, for some columns, as block_contraction.cpp does, and leaves them in the memory that
// its threads share; there they are combined. What memory gets is a row of each part, which a second kernel combines by
// the family of columns; of one part its results.
#include <algorithm>

#include "schedule/chain.h"
#include "schedule/reduced_product.h"
#include "schedule/stages.h"
#include "te/axes.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tune/construct/distinct.h"
#include "tune/construct/product_loops.h"

namespace tw::tune {
namespace {

constexpr double kClock = 1.7;            // cycles of a ns
constexpr double kKernelNs = 2000;        // of a second kernel
constexpr int64_t kCombiningThreads = 8;  // of a column: neighbouring lanes of a warp, in different banks
constexpr int64_t kMostUnrolled = 16;

using schedule::ReducedProduct;

// One number of parts.
class ReducedKernel {
 public:
  ReducedKernel(const ReducedProduct& match, int64_t parts, const GroupTask& task, const TargetInfo& target)
      : match_(match), parts_(parts), task_(task), target_(target) {}

  // Why it is none; empty when it is one.
  std::string prepare() {
    program_ = schedule::inline_stages(base_.schedule, in_parts(),
                                       [&](const te::Compute& c) { return c.name() == match_.value; });
    schedule::ChainSegment segment{match_.sum, {}};
    for (const te::Compute& c : program_.computes) {
      if (c.name() != match_.sum && !te::depends_on(program_, c, match_.sum))
        return fmt::format("{} comes before {}", c.name(), match_.sum);
      if (std::ranges::find(match_.stages, c.name()) != match_.stages.end()) segment.stages.push_back(c.name());
    }
    const te::Program product = schedule::segment_program(program_, segment);
    const te::Compute& sum = *product.find_compute(match_.sum);
    const Result<Product> roles = product_of(product, sum);
    if (!roles.ok()) return roles.reason();
    stored_ = stored(product, match_.sum, constant_layouts(*roles, sum, task_), {});
    take_batch();
    base_.constant_layouts.insert(stored_.layouts.begin(), stored_.layouts.end());
    return split();
  }

  void add_candidates(Candidates& candidates) const {
    BlockProblem problem = problem_of(stored_, task_, target_);
    problem.kept_bytes = stored_.program.tensor(match_.value).type.bytes();
    problem.result_bytes -= problem.kept_bytes;
    problem.neighbours = 2;
    problem.boxes = problem.boxes && (parts_ == 1 || problem.rows == schedule::rows_of_tile(problem.rows));
    for (const BlockTile& tile : block_tiles(problem, target_)) {
      // The copy engine's zeros begin where a tensor ends, not a part of it.
      if (tile.boxes && parts_ > 1 && BlockTile::extent(tile.rows) != problem.rows) continue;
      candidates.push_back(base_);
      candidates.back().predicted_ns = predicted_cycles(tile, problem, target_) / kClock + (parts_ > 1 ? kKernelNs : 0);
      schedule_tile(tile, candidates.back());
    }
  }

 private:
  // Of the stages of rows: a part is an axis of its own.
  te::Program in_parts() {
    base_.constant_layouts = match_.layouts;
    if (parts_ == 1) return match_.program;
    const size_t d = match_.rows.front();
    const int64_t extent = match_.program.tensor(match_.value).shape[d];
    std::map<std::string, Layout> layouts;
    for (const std::string& stage : match_.stages) {
      layouts[stage] = Layout().split(static_cast<int>(d), {parts_, extent / parts_});
      base_.constant_layouts[stage] =
          base_.constant_layouts[stage].split(static_cast<int>(d), {parts_, extent / parts_});
    }
    return te::apply_layouts(match_.program, layouts);
  }

  // Rows that are not combined, and the parts, are the batch.
  void take_batch() {
    Product& p = stored_.product;
    const size_t shift = parts_ > 1 ? 1 : 0;
    std::vector<size_t> combined;
    for (const size_t d : match_.rows) combined.push_back(d + shift);
    for (const size_t d : p.rows) {
      if (std::ranges::find(combined, d) == combined.end()) p.batch.push_back(d);
    }
    std::ranges::sort(p.batch);
    p.rows = combined;
  }

  // The reduction in parts, and the kernel that adds them. Returns why there is none.
  std::string split() {
    const te::Compute& reduction = *program_.find_compute(match_.reduction);
    schedule::Schedule& s = base_.schedule;
    if (parts_ == 1) {
      for (const te::Compute& c : program_.computes) {
        if (te::depends_on(program_, c, match_.reduction) && c.name() != match_.output) s.inline_stage(c.name());
      }
      root_ = match_.output;
      axes_ = te::axis_names(reduction.axes);
    } else {
      StoredProduct out{program_, {}, {}, {reduction.reduce_axes.front().name, parts_}, {}, {}};
      root_ = split_sum(match_.reduction, out);
      const Result<Candidates> adding = construct_block_columns({out.rest, {}}, target_);
      if (!adding.ok()) return adding.reason();
      for (const schedule::Schedule& part : {out.split, adding->front().schedule}) {
        for (const schedule::Primitive& p : part.primitives()) s.add(p);
      }
      axes_ = te::axis_names(out.program.computes.front().axes);
    }
    reduced_ = match_.reduction;
    if (parts_ > 1 || root_ == reduced_) {
      s.cache_write(root_);
      reduced_ = root_ + ".acc";
    }
    for (const te::Axis& r : reduction.reduce_axes) rows_.push_back(r.name);
    return {};
  }

  void schedule_tile(const BlockTile& tile, Construction& out) const {
    schedule::Schedule& s = out.schedule;
    ProductLoops loops(stored_.program, stored_.product, tile, target_, s);
    loops.make_matrices();
    const int64_t columns = loops.line_extent(Side::kRight), threads = tile.threads();
    const std::string at = cut_root(columns, threads, s);
    s.compute_at(reduced_, root_, at, loop::Scope::kStack);
    s.compute_at(match_.value, root_, at, loop::Scope::kStack,
                 kBankBytes / stored_.program.tensor(match_.value).type.bytes());
    cut_reduction(loops.line_extent(Side::kLeft), columns, threads, s);
    const std::string steps = loops.attach_sums(match_.value, loops.cut_output().back());
    for (const Side side : {Side::kLeft, Side::kRight})
      tile.boxes ? loops.attach_box(side, steps) : loops.attach_operand(side, loops.sums(), steps, tile.steps);
    s.pipeline(loops.sums(), steps, tile.stages);
    out.trace = {
        fmt::format("tiles of {} x {} sums by {} threads, {} steps at a time, {} blocks of them under way{}{}, "
                    "whose rows are combined in {} parts",
                    loops.line_extent(Side::kLeft), columns, threads, tile.steps, tile.stages,
                    tile.multiplier == Multiplier::kWarpGroup ? ", by matrix instructions of warp groups"
                    : tile.by_matrix()                        ? ", by matrix instructions"
                                                              : "",
                    tile.boxes ? ", brought by the copy engine" : "", parts_)};
  }

  // Tiles of columns, a thread each. Returns the loop that holds a tile.
  std::string cut_root(int64_t columns, int64_t threads, schedule::Schedule& s) const {
    std::vector<std::string> tiles = axes_;
    const std::string column = tiles.back();
    s.split(root_, column, columns > threads ? std::vector<int64_t>{columns / threads, threads} : std::vector{columns});
    s.threads(root_, column + (columns > threads ? ".2" : ".1"));
    tiles.back() += ".0";
    s.parallel(root_, tiles);
    return tiles.back();
  }

  void cut_reduction(int64_t rows, int64_t columns, int64_t threads, schedule::Schedule& s) const {
    const int64_t lanes = kCombiningThreads;
    std::string row = rows_.front();
    for (size_t i = 1; i < rows_.size(); ++i) row += "$" + rows_[i];
    if (rows_.size() > 1) s.fuse(reduced_, rows_);
    const std::string& column = axes_.back();
    s.split(reduced_, row, {lanes}).split(reduced_, column, {std::min(columns, threads / lanes)});
    s.reorder(reduced_, {column + ".0", column + ".1", row + ".1", row + ".0"});
    s.threads(reduced_, column + ".1").threads(reduced_, row + ".1");
    if (rows <= kMostUnrolled * lanes) s.unroll(reduced_, row + ".0");
  }

  const ReducedProduct& match_;
  int64_t parts_;
  const GroupTask& task_;
  const TargetInfo& target_;
  Construction base_;
  te::Program program_;                   // whose rows are in parts, what is read once inlined
  StoredProduct stored_;                  // up to the value
  std::string root_;                      // owns the tiles
  std::string reduced_;                   // combines the rows of one
  std::vector<std::string> axes_, rows_;  // of the root, the column last; of what is combined
};

}  // namespace

Result<Candidates> construct_block_reduced(const GroupTask& task, const TargetInfo& target) {
  const Result<ReducedProduct> match = schedule::match_reduced_product(task.program);
  if (!match.ok()) return Reason{match.reason()};
  Candidates candidates;
  std::string reason = "no tile of its rows fits shared memory";
  for (const int64_t parts : match->parts) {
    ReducedKernel kernel(*match, parts, task, target);
    const std::string refusal = kernel.prepare();
    refusal.empty() ? kernel.add_candidates(candidates) : static_cast<void>(reason = refusal);
  }
  if (candidates.empty()) return Reason{reason};
  return best_distinct(std::move(candidates));
}

}  // namespace tw::tune
