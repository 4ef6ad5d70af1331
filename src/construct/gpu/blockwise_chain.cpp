// Chains of products on GPUs (schedule/match/tile_chain.h) whose last one sums along what the others have as columns,
// point by point in between: an attention's gradients, whose weights come again from scores (Dao et al. 2022,
// "FlashAttention", algorithm 4), and wide hidden layers. A tile computes some rows of the last product. Each warp has
// rows of its own: for a block of steps sums of the other products stay in its registers, become the last one's left
// operand where they are, and are multiplied at once. Other operands pass through shared memory, a block ahead. Unlike
// online sums (gpu/streamed_chain.cpp) nothing of a row is combined, so that sums go on from block to block.
#include <algorithm>

#include "construct/gpu/chain_kernels.h"
#include "construct/gpu/warp_rows.h"
#include "expr/analyzer.h"
#include "support/math.h"
#include "te/row_mask.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using Links = std::vector<std::unique_ptr<Link>>;

using Shape = StreamedTile;  // blocks of steps of the last product
constexpr auto kGroup = Multiplier::kWarpGroup;
constexpr Shape kGroupShapes[] = {{8, 1, 64, 2, kGroup},  {4, 1, 64, 2, kGroup}, {8, 1, 128, 2, kGroup},
                                  {4, 1, 128, 2, kGroup}, {8, 1, 64, 3, kGroup}, {4, 1, 64, 3, kGroup}};
constexpr Shape kShapes[] = {{4, 1, 64, 2}, {4, 1, 32, 2}, {4, 2, 32, 2}, {8, 1, 32, 2}, {8, 1, 64, 2}};

class BlockwiseChain {
 public:
  BlockwiseChain(const Chain& chain, const Links& links, const Link& last, const Shape& shape, const TargetInfo& target)
      : chain_(chain),
        links_(links),
        last_(last),
        shape_(shape),
        target_(target),
        last_tile_(last_tile(shape, last.n)) {
    for (const auto& link : links) {
      tiles_.push_back(rows_tile(shape, shape.block));
      tiles_.back().tile_k = round_up(link->k, by_groups() ? line_elements(half()) : kMatrixSteps);
    }
    last_tile_.tile_k = shape.block;
  }
  BlockwiseChain(const BlockwiseChain&) = delete;
  BlockwiseChain& operator=(const BlockwiseChain&) = delete;

  bool fits() const {
    const auto in_lines = [&](const auto& link) { return reads_in_lines(*link, shape_.block, target_); };
    return (!by_groups() || std::ranges::all_of(links_, in_lines)) && construct::fits(shape_, work(), target_);
  }

  void schedule(Construction& out) const {
    schedule::Schedule& s = out.schedule;
    ProductLoops last(chain_.program, last_.product, last_tile_, target_, s);
    std::vector<std::unique_ptr<ProductLoops>> before;
    for (size_t i = 0; i < links_.size(); ++i)
      before.push_back(std::make_unique<ProductLoops>(links_[i]->program, links_[i]->product, tiles_[i], target_, s));
    last.make_matrices();
    const Expr needed = te::nonzero_where(chain_.program, chain_.program.find_compute(chain_.last)->body[0]);
    if (needed) s.skip_zeros(last.sums());
    for (size_t i = before.size(); i-- > 0;) before[i]->make_matrices();
    for (const schedule::ChainSegment& segment : chain_.segments) inline_all(segment, s);
    s.whole(last.operand(Side::kLeft));
    for (const auto& loops : before) {
      lay_out(*loops, Side::kLeft);
      lay_out(*loops, Side::kRight);
    }
    lay_out(last, Side::kRight);
    s.layout(last.operand(Side::kLeft), middle_layout());
    const std::vector<std::string> tiles = last.tile_output();
    s.parallel(last_.product.output, {tiles.begin(), tiles.end() - 1}, {},
               sees_more(needed) ? schedule::kLastFirst : "");
    const std::string steps = last.attach_sums(last_.product.output, tiles.back());
    attach_middle(s, last, steps);
    bool tma = by_groups() && last.may_fetch_blocks(Side::kRight, last_.k);
    for (const auto& loops : before) tma = tma && loops->may_fetch_blocks(Side::kRight, last_.k);
    for (const auto& loops : before) {
      loops->attach_sums(last.sums(), steps);
      attach_operand(*loops, Side::kLeft, last_.product.output, tiles.back());
      tma ? loops->fetch_blocks(Side::kRight, last.sums(), steps)
          : attach_operand(*loops, Side::kRight, last.sums(), steps);
    }
    tma ? last.fetch_blocks(Side::kRight, last.sums(), steps) : attach_operand(last, Side::kRight, last.sums(), steps);
    s.pipeline(last.sums(), steps, shape_.stages);
    out.predicted_ns = cost::streamed_ns(shape_, work(), target_);
    out.trace = {
        fmt::format("tiles of {} rows by {} threads, {} steps of {} products at a time, {} blocks of them under way, "
                    "{} bytes shared{}{}",
                    tile_rows(), shape_.threads(), shape_.block, links_.size() + 1, shape_.stages, shared_bytes(),
                    by_groups() ? ", by matrix instructions of warp groups" : "", tma ? ", by TMA" : "")};
  }

 private:
  bool by_groups() const { return shape_.by_groups(); }
  int64_t half() const { return last_.product.match.a.type().bytes(); }
  int64_t tile_rows() const { return shape_.tile_rows(); }
  StreamedWork work() const {
    int64_t depth = last_.n;
    for (const auto& link : links_) depth += link->k;
    return {last_.batch, last_.m, last_.k, depth, registers(), shared_bytes()};
  }
  // Of a thread: what it has of the result, and of one block the sums of all products and the operand made of them.
  int64_t registers() const {
    return schedule::blockwise_registers(shape_.rows, shape_.block, std::ssize(links_), last_.n);
  }

  // Whether the last rows have steps that the first ones lack: these tiles take longer, and begin first.
  bool sees_more(const Expr& needed) const {
    if (!needed) return false;
    const auto at_step = [&](bool first_row) {
      VarMap at;
      const te::Compute& c = *chain_.program.find_compute(chain_.last);
      for (const size_t d : last_.product.rows) at[c.axes[d].name] = int_imm(first_row ? 0 : c.axes[d].extent - 1);
      for (const te::Axis& axis : last_.product.steps) at[axis.name] = int_imm(first_row ? axis.extent - 1 : 0);
      return Analyzer().simplify(substitute(needed, at));
    };
    return at_step(false).is_int(1) && at_step(true).is_int(0);
  }

  int64_t shared_bytes() const {
    const int64_t pad = by_groups() ? 0 : kBankBytes;
    const auto lines = [&](int64_t count, int64_t elements) { return count * (elements * half() + pad); };
    const int64_t columns = ThreadBlockTile::extent(last_tile_.columns);
    int64_t once = 0, each = std::max(lines(shape_.block, columns), lines(columns, shape_.block));
    for (const ThreadBlockTile& tile : tiles_) {
      once += std::max(lines(tile_rows(), tile.tile_k), lines(tile.tile_k, tile_rows()));
      each += std::max(lines(shape_.block, tile.tile_k), lines(tile.tile_k, shape_.block));
    }
    return once + shape_.stages * each + target_.sm.reserved_bytes;
  }

  // All between the sums is computed where the last product's operand is made.
  static void inline_all(const schedule::ChainSegment& segment, schedule::Schedule& s) {
    const bool has_sum = !segment.sum.empty();
    if (has_sum) return (void)s.inline_stage(segment.output());
    for (const std::string& stage : segment.stages) s.inline_stage(stage);
  }

  // Where operands lie in shared memory: for warp groups steps beside each other, or what is beside each other in
  // memory.
  void lay_out(ProductLoops& loops, Side side) const {
    using Lines = ProductLoops::Lines;
    const bool by_steps = loops.access(side).by_steps;
    if (by_groups()) return loops.set_layout(side, by_steps ? Lines::kBlocksOfSteps : Lines::kBlocksOfLines);
    if (!by_steps) loops.set_layout(side, Lines::kBesideEachOther);
  }

  // [batch, rows, steps] of the last product's left operand, as warps hold the sums that it is made of.
  Layout middle_layout() const {
    const std::vector<Factor>& rows = last_tile_.rows;
    const Layout by_rows = tiled(Layout(), first(), round_up(last_.m, tile_rows()), rows);
    std::vector<Factor> steps = {{ceil_div(last_.k, shape_.block), FactorKind::kUnrolled}};
    for (const Factor& f : step_factors(shape_.block)) steps.push_back(f);
    return split(by_rows, first() + rows.size() + 1, steps);
  }
  void attach_middle(schedule::Schedule& s, const ProductLoops& last, const std::string& loop) const {
    const std::string middle = last.operand(Side::kLeft);
    s.compute_at(middle, last.sums(), loop, loop::Scope::kRegister);
    WarpLoops loops;
    size_t dim = 0;
    loops.add_outer(first() + 1, dim);
    loops.add(last_tile_.rows, dim);
    loops.add_outer(1, dim);
    loops.add(step_factors(shape_.block), dim);
    loops.order(s, middle);
  }
  void attach_operand(ProductLoops& loops, Side side, const std::string& stage, const std::string& loop) const {
    by_groups() ? loops.attach_blocks(side, stage, loop) : loops.attach_operand(side, stage, loop, loops.tile().tile_k);
  }
  // Matrices have one axis of batch, or none.
  size_t first() const { return last_.product.batch.empty() ? 0 : 1; }

  const Chain& chain_;
  const Links& links_;
  const Link& last_;
  Shape shape_;
  const TargetInfo& target_;
  ThreadBlockTile last_tile_;
  std::vector<ThreadBlockTile> tiles_;
};

}  // namespace

void add_blockwise(const Chain& chain, const Construction& base, const TargetInfo& target, Candidates& candidates) {
  if (!schedule::why_blockwise_declined(chain, target).empty()) return;
  Links links;
  for (const schedule::ChainSegment& s : chain.segments) {
    if (!s.sum.empty()) links.push_back(std::make_unique<Link>(schedule::segment_program(chain.program, s), s.sum));
  }
  const Link last(chain.program, chain.last);
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  if (has_feature(target, "wgmma")) shapes.insert(shapes.begin(), std::begin(kGroupShapes), std::end(kGroupShapes));
  for (const Shape& shape : shapes) {
    const BlockwiseChain kernel(chain, links, last, shape, target);
    if (!kernel.fits()) continue;
    candidates.push_back(base);
    kernel.schedule(candidates.back());
  }
}

}  // namespace tw::construct
