// Chains (schedule/match/chain.h) on GPUs: attention as one kernel, of whole rows here, or block by block of each row
// (streamed_chain.cpp). A tile computes some rows of the last product. The
// operands of both products come into shared memory, all at once; the rows between the products are stored there too,
// as sums of the first one leave its registers, then as what combines them is done, then as the left operand of the
// second one.
#include <algorithm>

#include "construct/gpu/chain_kernels.h"
#include "construct/gpu/row_mapping.h"
#include "support/math.h"

namespace tw::construct {
namespace {

using schedule::Chain;

constexpr int64_t kMaxSums = 128;  // accumulators of a thread
constexpr int64_t kMaxLanes = 4;   // elements of a row an access
constexpr int64_t kMaxKept = 64;   // elements of a row in a thread's registers
using TileShape = cost::WholeRowsTile;
constexpr TileShape kShapes[] = {{16, 4}, {32, 4}, {64, 4}, {16, 8}, {32, 8}, {64, 8}, {128, 8}};

class ChainKernel {
 public:
  ChainKernel(const Chain& chain, const Link& scores, const Link& values, const TileShape& shape,
              const TargetInfo& target)
      : chain_(chain),
        scores_(scores),
        values_(values),
        rows_(schedule::segment_program(chain.program, chain.segments[1])),
        shape_(shape),
        target_(target),
        scores_tile_(product_tile(scores.n, shape.rows, shape.warps)),
        values_tile_(product_tile(values.n, shape.rows, shape.warps)),
        padded_(round_up(scores.n, kMatrixSteps)) {
    scores_tile_.tile_k = round_up(scores.k, kMatrixSteps);
    values_tile_.tile_k = 4 * kMatrixSteps;
    while (padded_ % values_tile_.tile_k != 0) values_tile_.tile_k -= kMatrixSteps;
    row_ = {scores.n, kMaxLanes, row_threads()};
    while (row_.lanes > 1 && scores.n % row_.lanes != 0) row_.lanes /= 2;
    in_registers_ = padded_ == scores.n && row_.is_even() && scores.n / row_threads() <= kMaxKept;
  }

  // Whether its rows are stored in registers and shared memory.
  bool fits() const {
    const int64_t sums = ThreadBlockTile::extent(values_tile_.columns) * shape_.rows / threads();
    const bool whole = ThreadBlockTile::extent(values_tile_.columns) >= values_.n;
    return whole && row_threads() >= 1 && sums <= kMaxSums && shape_.rows / 2 < round_up(values_.m, kInstructionRows) &&
           shared_bytes() <= target_.levels.front().capacity_bytes;
  }

  double predicted_ns() const {
    const int64_t operand_bytes = half() * padded_ * (scores_tile_.tile_k + values_.n);
    return cost::whole_rows_ns(
        shape_, {values_.batch, values_.m, scores_.n, scores_.k + values_.n, shared_bytes(), operand_bytes}, target_);
  }

  void schedule(Construction& out) {
    s_ = &out.schedule;
    ProductLoops scores(scores_.program, scores_.product, scores_tile_, target_, *s_);
    ProductLoops values(chain_.program, values_.product, values_tile_, target_, *s_);
    values.make_matrices();
    scores.make_matrices();
    if (!values.access(Side::kRight).by_steps) values.set_layout(Side::kRight, ProductLoops::Lines::kBesideEachOther);
    s_->inline_stage(rows_.outputs[0]);
    for (const te::Compute& c : rows_.computes) {
      if (is_kept(c)) s_->layout(c.name(), row_.layout(rows()));
    }
    tile_output(values);
    values.attach_sums(output(), loop_);
    attach_rows(values.operand(Side::kLeft));
    const std::string& between = chain_.segments[0].output();
    attach(between, loop::Scope::kStack, kBankBytes / chain_.program.tensor(between).type.bytes());
    scores.attach_sums(between, scores.tile_output().back());
    scores.attach_operand(Side::kLeft, output(), fetches_all_rows() ? fetch_loop_ : block_loop_, scores_tile_.tile_k);
    scores.attach_operand(Side::kRight, output(), fetch_loop_, scores_tile_.tile_k);
    values.attach_operand(Side::kRight, output(), fetch_loop_, padded_);
    out.predicted_ns = predicted_ns();
    out.trace = {fmt::format("tiles of {} x {} rows by {} threads, {} elements of a row kept in {}, {} bytes shared",
                             shape_.blocks, shape_.rows, threads(), scores_.n,
                             in_registers_ ? "registers" : "shared memory", shared_bytes())};
  }

 private:
  int64_t threads() const { return shape_.warps * kWarpThreads; }
  int64_t row_threads() const { return threads() / shape_.rows; }
  size_t rows() const { return scores_.product.batch.size() + 1; }  // axes
  const std::string& output() const { return chain_.output; }
  bool has_elements(const te::Compute& c) const { return c.axes.size() > rows(); }
  bool is_kept(const te::Compute& c) const { return in_registers_ && has_elements(c) && c.name() != rows_.outputs[0]; }
  static std::string axis(size_t d) { return fmt::format("i{}", d); }

  int64_t half() const { return values_.product.match.a.type().bytes(); }
  // The left operand of the first product, of all blocks at once where it fits: each block would wait for its own.
  int64_t other_rows_bytes() const {
    return (shape_.blocks - 1) * shape_.rows * (scores_tile_.tile_k * half() + kBankBytes);
  }
  int64_t block_bytes() const { return schedule::tile_bytes(chain_, shape_.rows, shape_.warps); }
  bool fetches_all_rows() const { return block_bytes() + other_rows_bytes() <= target_.levels.front().capacity_bytes; }
  int64_t shared_bytes() const { return block_bytes() + (fetches_all_rows() ? other_rows_bytes() : 0); }

  // Tiles of rows; in each one turn of a loop that fetches the second operands, in it a turn for each block of rows, in
  // that one in which everything is computed.
  void tile_output(ProductLoops& values) {
    std::vector<std::string> tiles = values.tile_output();
    loop_ = tiles.back();
    tiles.pop_back();
    std::vector<int64_t> turns = {1};
    if (shape_.blocks > 1) turns.push_back(shape_.blocks);
    s_->split(output(), tiles.back(), turns);
    fetch_loop_ = tiles.back() + ".1";
    block_loop_ = tiles.back() + fmt::format(".{}", turns.size());
    tiles.back() += ".0";
    s_->parallel(output(), tiles).pipeline(output(), fetch_loop_, 2);
  }

  void attach(const std::string& stage, loop::Scope scope, int64_t pad) {
    s_->compute_at(stage, output(), loop_, scope, pad);
  }

  // The stages between the products; the last one is the left operand of the second.
  void attach_rows(const std::string& operand) {
    attach(operand, loop::Scope::kStack, kBankBytes / values_.product.match.a.type().bytes());
    row_.map_to_threads(*s_, operand, axis(operand_rows() - 1), axis(operand_rows()));
    for (auto c = rows_.computes.rbegin() + 1; c != rows_.computes.rend(); ++c) {
      const bool kept = is_kept(*c);
      attach(c->name(), kept ? loop::Scope::kRegister : loop::Scope::kStack, 0);
      if (kept) {
        s_->threads(c->name(), axis(rows() - 1));
        row_.map_axes_to_threads(*s_, c->name(), rows());
        continue;
      }
      row_.map_to_threads(*s_, c->name(), c->axes[rows() - 1].name,
                          c->is_reduction()  ? c->reduce_axes[0].name
                          : has_elements(*c) ? c->axes[rows()].name
                                             : "");
    }
  }
  size_t operand_rows() const { return values_.product.batch.empty() ? 1 : 2; }

  const Chain& chain_;
  const Link &scores_, &values_;
  te::Program rows_;
  TileShape shape_;
  const TargetInfo& target_;
  ThreadBlockTile scores_tile_, values_tile_;
  int64_t padded_;  // K of the second product, padded
  RowMapping row_;
  bool in_registers_;  // what is computed of each element, where other stages read it
  std::string loop_, block_loop_, fetch_loop_;
  schedule::Schedule* s_ = nullptr;
};

void add_whole_rows(const Chain& chain, const Link& scores, const Link& values, const Construction& base,
                    const TargetInfo& target, Candidates& candidates) {
  for (TileShape shape : kShapes) {
    const int64_t all = ceil_div(values.m, shape.rows);
    for (shape.blocks = 1; shape.blocks <= std::min(all, schedule::kMaxRowBlocks); ++shape.blocks) {
      if (all % shape.blocks != 0) continue;  // the last tile has as many
      ChainKernel kernel(chain, scores, values, shape, target);
      if (!kernel.fits()) continue;
      candidates.push_back(base);
      kernel.schedule(candidates.back());
    }
  }
}

}  // namespace

ThreadBlockTile product_tile(int64_t columns, int64_t rows, int64_t warps) {
  constexpr int64_t kMaxColumns = 16;  // instructions of a warp: their accumulators are half of its registers
  const int64_t row_warps = std::min(rows / kInstructionRows, warps), column_warps = warps / row_warps;
  const int64_t all = ceil_div(columns, kInstructionColumns * column_warps);
  const int64_t each = ceil_div(all, ceil_div(all, kMaxColumns));
  return tile_of({row_warps, column_warps, rows / kInstructionRows / row_warps, each}, 2);
}

Result<Candidates> construct_gpu_chain(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<Chain> chain = schedule::match_chain(schedule::inline_chain(base.schedule, task.program));
  if (!chain.ok()) return Reason{chain.reason()};
  if (const std::string reason = schedule::why_tile_declined(*chain, target); !reason.empty()) return Reason{reason};
  base.constant_layouts.insert(chain->layouts.begin(), chain->layouts.end());
  Candidates candidates;
  if (schedule::is_products(*chain)) {
    schedule::why_resident_declined(*chain, target).empty() ? add_resident(*chain, task, base, target, candidates)
                                                            : add_blockwise(*chain, base, target, candidates);
    if (candidates.empty()) return declined("no tile holds rows of all products");
    return best_distinct(std::move(candidates));
  }
  const Link scores(schedule::segment_program(chain->program, chain->segments[0]), chain->segments[0].sum);
  const Link values(chain->program, chain->last);
  const bool alone = schedule::row_outputs(*chain).empty();
  if (alone) add_whole_rows(*chain, scores, values, base, target, candidates);
  add_streamed({*chain, scores, values.product}, base, target, candidates);
  if (alone) add_split({*chain, scores, values.product}, base, target, candidates);
  if (candidates.empty()) return declined("no tile of rows fits shared memory");
  return best_distinct(std::move(candidates));
}

}  // namespace tw::construct
