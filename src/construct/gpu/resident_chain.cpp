// Back-to-back products on GPUs (Xing et al. 2022, section 3.1.1): a tile computes some rows of the last product, and
// all columns of each one before. The first product is one of gpu/contraction.cpp: a convolution, too, its operands
// brought a k-block at a time. Its sums stay in the registers of the warps that made them, are finished there, and are
// the left operand of the next product where they are (register-resident); the second operands of all products but the
// first come into shared memory as a whole.
#include "construct/gpu/resident_chain.h"

#include <memory>
#include <numeric>
#include <optional>

#include "construct/gpu/streamed_chain.h"
#include "construct/gpu/warp_rows.h"
#include "core/model_units.h"
#include "support/join.h"
#include "support/math.h"
#include "te/axes.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using Links = std::vector<std::unique_ptr<Link>>;

constexpr int64_t kRegisters = 65536, kMaxRegisters = 250;  // of an SM, and of a thread
constexpr int64_t kQuarter = 4 * kWarpThreads;  // registers are given to a warp of each of four SM partitions
constexpr int64_t kMaxSums = 64;                // of the last product that a thread holds at a time
constexpr int64_t kOtherRegisters = 40;         // beside sums and operands
constexpr double kProductCycles = 800;  // of a product of a tile behind the first: its operands wait for its sums
constexpr int64_t kMaxNeighbours = 8;   // columns of the last product that a thread stores together

// The second operands of all products behind the first as they are stored: lines of steps.
std::map<std::string, Layout> operand_layouts(const Chain& chain, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  const auto add = [&](const te::Program& program, const std::string& sum) {
    const te::Compute& c = *program.find_compute(sum);
    const Result<MatrixProduct> product = product_of(program, c);
    if (product.ok()) layouts.merge(constant_layouts(*product, c, task));
  };
  for (size_t i = 1; i < chain.segments.size(); ++i)
    add(schedule::segment_program(chain.program, chain.segments[i]), chain.segments[i].sum);
  add(chain.program, chain.last);
  return layouts;
}

class ResidentChain {
 public:
  ResidentChain(const Links& links, const GemmProblem& problem, const ThreadBlockTile& first, const TargetInfo& target)
      : links_(links), problem_(problem), target_(target), tiles_{first} {
    for (size_t i = 1; i < links.size(); ++i) tiles_.push_back(tile_behind(i));
  }

  // Whether its registers hold the sums of each product beside the operand that they are made of.
  bool fits() const {
    const int64_t rows = ThreadBlockTile::extent(tiles_[0].rows), threads = tiles_[0].threads();
    const int64_t all = round_up(threads * tiles_[0].together + (tiles_[0].tma ? kWarpThreads : 0), kQuarter);
    const int64_t registers = std::min(kMaxRegisters, kRegisters / all);
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const int64_t sums = rows * ThreadBlockTile::extent(tiles_[i].columns) / threads;
      const int64_t operand = i == 0 ? 0 : rows * tiles_[i].tile_k / 2 / threads;
      if (sums + operand + kOtherRegisters > registers) return false;
    }
    return rows / 2 < round_up(links_[0]->m, kInstructionRows);
  }

  static int64_t operand_bytes(const Links& links) {
    int64_t bytes = 0;
    for (size_t i = 1; i < links.size(); ++i) {
      const int64_t half = links[i]->product.match.a.type().bytes();
      bytes += columns_of(links, i) * (columns_of(links, i - 1) * half + kBankBytes);
    }
    return bytes;
  }

  // Of the first product, and of what each tile does behind it: blocks that walk over tiles bring the second operands
  // once, and of tiles together one multiplies while another is behind its sums.
  double predicted_ns() const {
    const ThreadBlockTile& first = tiles_[0];
    const int64_t rows = ThreadBlockTile::extent(first.rows), sms = std::max(1, target_.compute_units);
    const auto tiles = static_cast<double>(ceil_div(ceil_div(links_[0]->m, rows), sms));
    double behind = 0;
    for (size_t i = 1; i < links_.size(); ++i) {
      const auto products = static_cast<double>(rows * tiles_[i].tile_k * ThreadBlockTile::extent(tiles_[i].columns));
      behind += products / kMatrixProducts + kProductCycles;
    }
    const double fetched = static_cast<double>(operand_bytes(links_)) / kFetchBytes;
    const bool walks = first.persistent_blocks > 0;
    const double each = behind / (walks ? static_cast<double>(first.together) : 1) + (walks ? 0 : fetched);
    return (predicted_cycles(first, problem_, target_) + tiles * each + (walks ? fetched : 0)) / kCyclesPerNs;
  }

  void schedule(Construction& out) const {
    schedule::Schedule& s = out.schedule;
    std::vector<std::unique_ptr<ProductLoops>> loops;
    for (size_t i = 0; i < links_.size(); ++i) {
      const Link& link = *links_[i];
      loops.push_back(std::make_unique<ProductLoops>(link.program, link.product, tiles_[i], target_, s));
    }
    for (size_t i = links_.size(); i-- > 0;) loops[i]->make_matrices();
    for (size_t i = 0; i + 1 < links_.size(); ++i) s.inline_stage(links_[i]->product.output);
    const std::string& output = links_.back()->product.output;
    for (size_t i = 1; i < links_.size(); ++i) s.layout(loops[i]->operand(Side::kLeft), rows_layout(i));
    std::vector<std::string> tiles = loops.back()->tile_output();
    const std::string columns = tiles.back();  // those of the last product: as many as a warp holds at a time
    tiles.pop_back();
    const std::string& rows = tiles.back();
    std::vector<int64_t> walk;
    if (tiles_[0].persistent_blocks > 0) walk = {1, tiles_[0].persistent_blocks, tiles_[0].together};
    s.parallel(output, tiles, walk);
    for (size_t i = links_.size(); i-- > 1;) {
      loops[i]->attach_sums(output, i + 1 == links_.size() ? columns : rows);
      attach_rows(s, loops[i]->operand(Side::kLeft), i, rows);
    }
    loops[0]->attach_all(output, rows);
    for (size_t i = 1; i < links_.size(); ++i) loops[i]->attach_operand(Side::kRight, output, rows, tiles_[i].tile_k);
    out.predicted_ns = predicted_ns();
    out.trace = {fmt::format("{}; rows of {} products in registers", loops[0]->describe(), links_.size())};
  }

 private:
  static constexpr double kFetchBytes = 24;  // bytes a cycle of the second operands

  static int64_t columns_of(const Links& links, size_t i) { return round_up(links[i]->n, kMatrixSteps); }

  // Rows as those of the first product, all columns of product `i` in the warp that has the rows, or of the last one
  // equal shares, one after the other.
  ThreadBlockTile tile_behind(size_t i) const {
    const bool last = i + 1 == links_.size();
    const int64_t rows = ThreadBlockTile::extent(tiles_[0].rows) * kWarpThreads / tiles_[0].threads();
    const int64_t all = columns_of(links_, i), most = last ? kMaxSums * kWarpThreads / rows : all;
    const int64_t eighths = round_up(ceil_div(all, ceil_div(all, most)), kMatrixSteps) / kInstructionColumns;
    ThreadBlockTile tile = tile_of({1, 1, 1, eighths}, last ? neighbours() : kPair);
    tile.rows = tiles_[0].rows;
    tile.tile_k = columns_of(links_, i - 1);
    return tile;
  }
  // Columns of the last product that a thread stores with one access.
  int64_t neighbours() const {
    const Link& last = *links_.back();
    const DataType type = last.program.tensor(last.product.output).type;
    return std::max(kPair, std::gcd(std::min<int64_t>(kMaxNeighbours, target_.vector_bytes / type.bytes()), last.n));
  }

  Layout rows_layout(size_t i) const {
    const std::vector<Factor>& rows = tiles_[0].rows;
    const Layout by_rows = tiled(Layout(), 0, round_up(links_[i]->m, ThreadBlockTile::extent(rows)), rows);
    return split(by_rows, rows.size() + 1, step_factors(tiles_[i].tile_k));
  }
  void attach_rows(schedule::Schedule& s, const std::string& stage, size_t i, const std::string& loop) const {
    s.compute_at(stage, links_.back()->product.output, loop, loop::Scope::kRegister);
    WarpLoops loops;
    size_t dim = 0;
    loops.add_outer(1, dim);
    loops.add(tiles_[0].rows, dim);
    loops.add(step_factors(tiles_[i].tile_k), dim);
    loops.order(s, stage);
  }

  const Links& links_;
  const GemmProblem& problem_;
  const TargetInfo& target_;
  std::vector<ThreadBlockTile> tiles_;
};

}  // namespace

namespace {

// Of what the last product leaves, and of what is read beside it that is as large.
int64_t result_bytes(const Link& last) {
  const te::Program& program = last.program;
  const te::Tensor& result = program.tensor(last.product.output);
  int64_t bytes = num_elements(result.shape) * result.type.bytes();
  for (const te::Tensor& t : program.inputs) {
    const bool beside = t.name != last.product.match.b->name && t.shape == result.shape;
    bytes += beside ? num_elements(t.shape) * t.type.bytes() : 0;
  }
  return bytes;
}

// The tiles that begin with `first`, the first product as it is stored.
void add_tiles(const Chain& chain, const StoredProduct& first, const GroupTask& task, const Construction& base,
               const TargetInfo& target, Candidates& candidates) {
  std::map<std::string, Layout> layouts = operand_layouts(chain, task);
  layouts.insert(first.layouts.begin(), first.layouts.end());
  const te::Program program = layouts.empty() ? chain.program : te::apply_layouts(chain.program, layouts);
  GemmProblem problem = problem_of(first, task, target);
  problem.neighbours = kPair;
  Links links;
  const auto add = [&](te::Program p, const std::string& sum) {
    links.push_back(std::make_unique<Link>(std::move(p), sum));
    links.back()->m = problem.m;
    links.back()->product.halo = problem.halo;
  };
  for (const schedule::ChainSegment& s : chain.segments) add(schedule::segment_program(program, s), s.sum);
  add(program, chain.last);
  links[0]->product = first.product;
  problem.result_bytes = ceil_div(result_bytes(*links.back()), problem.m * problem.n);
  TargetInfo rest = target;
  rest.levels.front().capacity_bytes -= ResidentChain::operand_bytes(links);
  for (const ThreadBlockTile& tile : row_tiles(problem, rest)) {
    const ResidentChain kernel(links, problem, tile, target);
    if (!kernel.fits()) continue;
    candidates.push_back(base);
    candidates.back().constant_layouts.insert(layouts.begin(), layouts.end());
    kernel.schedule(candidates.back());
  }
}

}  // namespace

void add_resident(const Chain& chain, const GroupTask& task, const Construction& base, const TargetInfo& target,
                  Candidates& candidates) {
  const te::Program program = schedule::segment_program(chain.program, chain.segments[0]);
  const std::string& sum = chain.segments[0].sum;
  const te::Compute& c = *program.find_compute(sum);
  const Result<MatrixProduct> product = product_of(program, c);
  if (!product.ok()) return;
  const StoredProduct whole = stored(program, sum, constant_layouts(*product, c, task), {});
  add_tiles(chain, whole, task, base, target, candidates);
  const std::optional<StoredProduct> shared = with_filter_positions(whole, program, task, target);
  if (shared) add_tiles(chain, *shared, task, base, target, candidates);
}

}  // namespace tw::construct
