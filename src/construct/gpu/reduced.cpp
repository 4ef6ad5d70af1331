// Contractions whose rows a reduction combines (schedule/match/chain.h), on GPUs. A tile computes all rows of a part
// for some columns as gpu/contraction.cpp does, leaves them in shared memory, and combines them there. Memory gets a
// row of each part, which a second kernel combines as gpu/columns.cpp does; of one part its results.
#include <algorithm>
#include <numeric>

#include "construct/column_sums.h"
#include "construct/gpu/product_loops.h"
#include "cost/calibrated.h"
#include "schedule/match/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

constexpr int64_t kMinColumns = 16;   // columns of a tile, and combined at a time
constexpr int64_t kAccessBytes = 16;  // bytes of a thread's access
constexpr int64_t kTogether = 8;      // threads of a column: neighbouring lanes, different banks

// All candidates of one number of parts.
class ReducedKernel {
 public:
  ReducedKernel(const schedule::ReducedProduct& match, int64_t parts) : match_(match), parts_(parts) {}

  void add_candidates(const GroupTask& task, const TargetInfo& target, Candidates& candidates) {
    value_ = match_.segment.output();
    // Before rows are in parts: of a stage that is read in parts and has none nobody reads its own point.
    program_ = in_parts(
        schedule::inline_stages(base_.schedule, task.program, [&](const auto& c) { return c.name() == value_; }));
    schedule::ChainSegment segment = match_.segment;
    std::erase_if(segment.stages, [&](const auto& stage) { return program_.find_compute(stage) == nullptr; });
    if (program_.is_output(value_)) {
      stored_ = keep_rows(program_, base_.schedule, segment);
      value_ = segment.output();
    }
    const std::string& value = value_;
    const te::Program product = schedule::segment_program(program_, segment);
    const te::Compute& sum = *product.find_compute(segment.sum);
    const Result<MatrixProduct> roles = product_of(product, sum);
    if (!roles.ok() || roles->narrow) return;
    StoredProduct in = stored(product, segment.sum, constant_layouts(*roles, sum, task), {});
    MatrixProduct& p = in.product;
    p.rows = match_.rows, p.batch.clear();
    for (size_t& d : p.rows) d += parts_ > 1 ? 1 : 0;
    // Of lines of a part that has one: fused with its pixels, a row would be a remainder, which says no thread.
    std::erase_if(p.rows, [&](size_t d) { return sum.axes[d].extent == 1; });
    if (p.rows.empty()) return;
    for (size_t d = 0; d + 1 < sum.axes.size(); ++d) {  // also rows that are not combined, and the parts
      if (std::ranges::find(p.rows, d) == p.rows.end()) p.batch.push_back(d);
    }
    base_.constant_layouts.insert(in.layouts.begin(), in.layouts.end());
    if (!split(target)) return;
    GemmProblem problem = problem_of(in, task, target);
    problem.kept_bytes = product.tensor(value).type.bytes();
    problem.result_bytes -= problem.kept_bytes;
    problem.neighbours = 2;
    problem.split_k = parts_;
    // The zeros of TMA begin where a tensor ends, not a part of it.
    problem.tma = problem.tma && (parts_ == 1 || match_.parts.at(parts_) == 1);
    // A last column alone is combined by all threads, by means of memory that kernels of TMA have not.
    problem.tma = problem.tma && problem.n % kMinColumns != 1;
    for (const ThreadBlockTile& tile : thread_block_tiles(problem, target)) {
      candidates.push_back(base_);
      candidates.back().predicted_ns = predicted_cycles(tile, problem, target) / target.sm.cycles_per_ns;
      ProductLoops loops(in.program, in.product, tile, target, candidates.back().schedule);
      schedule_tile(loops, tile, problem.kept_bytes, candidates.back());
    }
  }

 private:
  // The program whose rows are in parts, an axis of their own.
  te::Program in_parts(const te::Program& program) {
    const auto d = static_cast<int>(match_.rows.front());
    const int64_t extent = match_.program.tensor(match_.segment.output()).shape[d];
    base_.constant_layouts = match_.layouts;
    if (parts_ > 1) {
      for (const std::string& stage : match_.segment.stages) {
        Layout& layout = base_.constant_layouts[stage];
        layout = layout.split(d, {parts_, extent / parts_});
      }
    }
    std::map<std::string, Layout> layouts = base_.constant_layouts;
    std::erase_if(layouts, [&](const auto& row) {  // of what was inlined
      return match_.program.find_compute(row.first) != nullptr && program.find_compute(row.first) == nullptr;
    });
    return te::apply_layouts(program, layouts);
  }

  // The reduction, in parts with the kernel that adds them. Whether there is one.
  bool split(const TargetInfo& target) {
    const te::Compute& reduction = *program_.find_compute(match_.reduction);
    schedule::Schedule& s = base_.schedule;
    rows_ = te::axis_names(reduction.reduce_axes);
    axes_ = te::axis_names(reduction.axes);
    root_ = match_.output;
    if (parts_ > 1) {
      StoredProduct out{without_rows(program_, stored_), {}, {}, {rows_.front(), parts_}, {}, {}};
      root_ = split_sum(match_.reduction, out);
      axes_ = te::axis_names(out.program.computes.front().axes);
      const Result<Candidates> adding = add_parts_on_gpu({out.rest, {}}, target);
      if (!adding.ok()) return false;
      for (const schedule::Schedule& part : {out.split, adding->front().schedule}) {
        for (const schedule::Primitive& p : part.primitives()) s.add(p);
      }
    }
    const bool copies = parts_ > 1 || root_ == match_.reduction;
    if (copies) s.cache_write(root_);
    reduced_ = copies ? root_ + ".acc" : match_.reduction;
    for (const te::Compute& c : program_.computes) {
      const bool between = te::depends_on(program_, c, match_.reduction) && c.name() != root_;
      if (parts_ == 1 && between) s.inline_stage(c.name());
    }
    return true;
  }

  // The rows of a tile as they are stored in shared memory, and to memory: neighbouring threads, neighbouring columns.
  void store_rows(ProductLoops& loops, int64_t threads, schedule::Schedule& s) const {
    const te::Compute& c = *program_.find_compute(stored_);
    std::vector<std::string> rows = te::axis_names(c.axes);
    const std::string column = rows.back();
    rows.pop_back();
    const int64_t columns = loops.line_extent(Side::kRight);
    const int64_t lanes = std::gcd(kAccessBytes / c.outputs[0].type.bytes(), std::gcd(columns, c.axes.back().extent));
    const std::string row = loops.fused(stored_, rows);
    const int64_t across = std::min(columns / lanes, threads);
    s.split(stored_, row, {threads / across}).split(stored_, column, {across, lanes});
    s.reorder(stored_, {row + ".1", column + ".1", row + ".0", column + ".0", column + ".2"});
    s.threads(stored_, row + ".1").threads(stored_, column + ".1");
    if (lanes > 1) s.vectorize(stored_, column + ".2");
  }

  void schedule_tile(ProductLoops& loops, const ThreadBlockTile& tile, int64_t bytes, Construction& out) const {
    schedule::Schedule& s = out.schedule;
    loops.make_matrices();
    loops.read_in_blocks();
    const int64_t columns = loops.line_extent(Side::kRight), threads = tile.threads();
    const std::string& column = axes_.back();
    std::vector<std::string> tiles = axes_;
    tiles.back() += ".0";
    const int64_t storing = columns <= threads ? columns : std::gcd(columns, threads);
    s.split(root_, column, {columns / storing, storing}).threads(root_, column + ".2").parallel(root_, tiles);
    s.compute_at(reduced_, root_, tiles.back(), loop::Scope::kStack);
    if (!stored_.empty()) s.write_at(stored_, root_, tiles.back());
    s.compute_at(value_, root_, tiles.back(), loop::Scope::kStack, tile.kept_pad_bytes() / bytes);
    if (!stored_.empty()) store_rows(loops, threads, s);  // a remainder of threads seems to read further parts
    const std::string row = loops.fused(reduced_, rows_);
    s.split(reduced_, row, {kTogether}).split(reduced_, column, {std::min(columns, threads / kTogether)});
    s.reorder(reduced_, {column + ".0", column + ".1", row + ".1", row + ".0"});
    s.threads(reduced_, column + ".1").threads(reduced_, row + ".1").unroll(reduced_, row + ".0");
    loops.attach_all(value_, loops.tile_output().back());
    out.trace = {fmt::format("{}, rows combined in parts: {}", loops.describe(), parts_)};
  }

  const schedule::ReducedProduct& match_;
  int64_t parts_;
  Construction base_;
  te::Program program_;                   // whose rows are in parts, what is read once inlined
  std::string root_, reduced_;            // own the tiles, and combine the rows of each
  std::string value_, stored_;            // the rows in a tile; where they leave the group, what they are stored to
  std::vector<std::string> axes_, rows_;  // of the root, the column last; of what is combined
};

}  // namespace

Result<Candidates> construct_gpu_reduced(const GroupTask& task, const TargetInfo& target) {
  const Result<schedule::ReducedProduct> match = schedule::match_reduced_product(task.program, cost::kMinFilled);
  if (!match.ok()) return Reason{match.reason()};
  Candidates candidates;
  for (const auto& [parts, filled] : match->parts)
    ReducedKernel(*match, parts).add_candidates(task, target, candidates);
  if (candidates.empty()) return declined("no tile holds rows of {}, or parts cannot be added", match->segment.sum);
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
