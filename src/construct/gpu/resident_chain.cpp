// Back-to-back products on GPUs (Xing et al. 2022, section 3.1.1): a tile computes some rows of the last product, and
// all columns of each one before. The first product is one of gpu/contraction.cpp: a convolution, too, its operands
// brought a k-block at a time. Its sums stay in the registers of the warps that made them, are finished there, and are
// the left operand of the next product where they are (register-resident); or they pass through shared memory, in lines
// that begin in different banks, so that other warps take other columns of them (shared-memory-resident). The second
// operands of all products but the first come into shared memory as a whole.
#include <numeric>

#include "construct/gpu/chain_kernels.h"
#include "construct/gpu/warp_rows.h"
#include "cost/units.h"
#include "support/math.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using Links = std::vector<std::unique_ptr<Link>>;

constexpr int64_t kMaxRegisters = 250;          // of a thread
constexpr int64_t kQuarter = 4 * kWarpThreads;  // registers are given to a warp of each of four SM partitions
constexpr int64_t kMaxSums = 64;                // of the last product that a thread holds at a time
constexpr int64_t kOtherRegisters = 40;         // beside sums and operands
constexpr int64_t kMaxNeighbours = 8;           // columns of the last product that a thread stores together

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

// Where the rows between the products are.
enum class Rows : uint8_t { kInRegisters, kInSharedMemory };

class ResidentChain {
 public:
  ResidentChain(const Links& links, const GemmProblem& problem, const ThreadBlockTile& first, Rows rows,
                const TargetInfo& target)
      : links_(links), problem_(problem), target_(target), rows_(rows), tiles_{first} {
    for (size_t i = 1; i < links.size(); ++i) tiles_.push_back(tile_behind(i));
  }

  // Whether its registers hold the sums of each product, and the operand that they are made of where it is there, and
  // shared memory the rest.
  bool fits() const {
    const ThreadBlockTile& first = tiles_[0];
    const int64_t rows = tile_rows(), threads = first.threads();
    const int64_t all = round_up(threads * first.together + (first.tma ? kWarpThreads : 0), kQuarter);
    const int64_t registers = std::min(kMaxRegisters, target_.sm.registers / all);
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const int64_t sums = rows * ThreadBlockTile::extent(tiles_[i].columns) / threads;
      const int64_t operand = i == 0 || rows_ == Rows::kInSharedMemory ? 0 : rows * tiles_[i].tile_k / 2 / threads;
      if (sums + operand + kOtherRegisters > registers) return false;
    }
    return shared_bytes() <= target_.levels.front().capacity_bytes &&
           rows / 2 < round_up(links_[0]->m, kInstructionRows);
  }

  // Of the second operands of all products but the first.
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
    const int64_t sms = std::max(1, target_.compute_units);
    const auto tiles = static_cast<double>(ceil_div(ceil_div(links_[0]->m, tile_rows()), sms));
    double behind = 0;
    for (size_t i = 1; i < links_.size(); ++i)
      behind += std::max(product_cycles(i), read_cycles(i)) + cost::kNextProductCycles;
    const double fetched = static_cast<double>(operand_bytes(links_)) / cost::l2_by_threads(target_);
    const bool walks = first.persistent_blocks > 0;
    const double each = behind / (walks ? static_cast<double>(first.together) : 1) + (walks ? 0 : fetched);
    return (cost::predicted_cycles(first, problem_, target_) + tiles * each + (walks ? fetched : 0)) /
           target_.sm.cycles_per_ns;
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
    for (size_t i = 1; i < links_.size() && rows_ == Rows::kInRegisters; ++i)
      s.layout(loops[i]->operand(Side::kLeft), rows_layout(i));
    std::vector<std::string> tiles = loops.back()->tile_output();
    const std::string columns = tiles.back();  // those of the last product: as many as a warp holds at a time
    tiles.pop_back();
    const std::string& rows = tiles.back();
    std::vector<int64_t> walk;
    if (tiles_[0].persistent_blocks > 0) walk = {1, tiles_[0].persistent_blocks, tiles_[0].together};
    s.parallel(output, tiles, walk);
    for (size_t i = links_.size(); i-- > 1;) {
      loops[i]->attach_sums(output, i + 1 == links_.size() ? columns : rows);
      attach_rows(s, *loops[i - 1], loops[i]->operand(Side::kLeft), i, rows);
    }
    loops[0]->attach_all(output, rows);
    for (size_t i = 1; i < links_.size(); ++i) loops[i]->attach_operand(Side::kRight, output, rows, tiles_[i].tile_k);
    out.predicted_ns = predicted_ns();
    out.trace = {fmt::format("{}; rows of {} products in {}", loops[0]->describe(), links_.size(),
                             rows_ == Rows::kInRegisters ? "registers" : "shared memory")};
  }

 private:
  static int64_t columns_of(const Links& links, size_t i) { return round_up(links[i]->n, kMatrixSteps); }
  int64_t tile_rows() const { return ThreadBlockTile::extent(tiles_[0].rows); }
  int64_t half() const { return links_[0]->product.match.a.type().bytes(); }
  int64_t column_tiles(size_t i) const { return ceil_div(links_[i]->n, ThreadBlockTile::extent(tiles_[i].columns)); }

  int64_t shared_bytes() const {
    const ThreadBlockTile& first = tiles_[0];
    int64_t bytes = first.stages * first.shared_bytes(half()) + target_.sm.reserved_bytes;
    bytes += first.columns_stay ? first.columns_bytes(problem_.k, half()) : 0;
    for (size_t i = 1; i < tiles_.size(); ++i) {
      const int64_t line = tiles_[i].tile_k * half() + kBankBytes;
      bytes += column_tiles(i) * ThreadBlockTile::extent(tiles_[i].columns) * line;
      bytes += rows_ == Rows::kInSharedMemory ? first.together * tile_rows() * line : 0;
    }
    return bytes;
  }

  // Of product `i` of a tile: its instructions, and what each warp reads of both operands.
  double product_cycles(size_t i) const {
    const int64_t columns = column_tiles(i) * ThreadBlockTile::extent(tiles_[i].columns);
    return static_cast<double>(tile_rows() * tiles_[i].tile_k * columns) / target_.sm.warp_products;
  }
  double read_cycles(size_t i) const {
    const int64_t column_warps = tiles_[i].columns.front().extent;
    const int64_t row_warps = tiles_[i].threads() / kWarpThreads / column_warps;
    int64_t lines = row_warps * column_tiles(i) * ThreadBlockTile::extent(tiles_[i].columns);
    if (rows_ == Rows::kInSharedMemory) lines += (column_warps + 1) * tile_rows();  // written once
    return static_cast<double>(lines * tiles_[i].tile_k * half()) / target_.sm.shared_bytes;
  }

  // In registers: rows as those of the first product, all columns of product `i` in the warp that has the rows. In
  // shared memory: as many rows for a warp as two instructions have, where there are enough columns. Of the last
  // product equal shares of columns, one after the other.
  ThreadBlockTile tile_behind(size_t i) const {
    constexpr int64_t kRows = 2 * kInstructionRows;
    const bool last = i + 1 == links_.size(), shared = rows_ == Rows::kInSharedMemory;
    const int64_t warps = tiles_[0].threads() / kWarpThreads;
    const int64_t row_warps = shared ? std::gcd(warps, std::max<int64_t>(1, tile_rows() / kRows)) : warps;
    const int64_t rows = tile_rows() / row_warps, column_warps = warps / row_warps;
    const int64_t all = ceil_div(columns_of(links_, i), column_warps);
    const int64_t most = last ? kMaxSums * kWarpThreads / rows : all;
    const int64_t eighths = round_up(ceil_div(all, ceil_div(all, most)), kMatrixSteps) / kInstructionColumns;
    ThreadBlockTile tile =
        tile_of({row_warps, column_warps, rows / kInstructionRows, eighths}, last ? neighbours() : kPair);
    if (!shared) tile.rows = tiles_[0].rows;
    tile.tile_k = ThreadBlockTile::extent(tiles_[i - 1].columns);
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
  // The left operand of product `i`, as the sums of `before` lie over threads.
  void attach_rows(schedule::Schedule& s, ProductLoops& before, const std::string& stage, size_t i,
                   const std::string& loop) const {
    const std::string& output = links_.back()->product.output;
    if (rows_ == Rows::kInSharedMemory) {
      s.compute_at(stage, output, loop, loop::Scope::kStack, kBankBytes / half());
      before.tile_as_sums(stage, "i0", "i1");
      return;
    }
    s.compute_at(stage, output, loop, loop::Scope::kRegister);
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
  Rows rows_;
  std::vector<ThreadBlockTile> tiles_;
};

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
  for (const te::Tensor& t : first.program.inputs) layouts.erase(t.name);  // stored as the first product has them
  layouts.insert(first.layouts.begin(), first.layouts.end());
  const te::Program program = layouts.empty() ? chain.program : te::apply_layouts(chain.program, layouts);
  GemmProblem problem = problem_of(first, task, target);
  problem.neighbours = kPair;
  problem.tma = problem.tma && !problem.rows_beside && !problem.columns_beside;
  problem.rows_beside = problem.columns_beside = false;  // its operands are copied line by line
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
    for (const Rows rows : {Rows::kInRegisters, Rows::kInSharedMemory}) {
      const ResidentChain kernel(links, problem, tile, rows, target);
      if (!kernel.fits()) continue;
      candidates.push_back(base);
      candidates.back().constant_layouts.insert(layouts.begin(), layouts.end());
      kernel.schedule(candidates.back());
    }
  }
}

}  // namespace

void add_resident(const Chain& chain, const GroupTask& task, const Construction& base, const TargetInfo& target,
                  Candidates& candidates) {
  const te::Program program = schedule::segment_program(chain.program, chain.segments[0]);
  const std::string& sum = chain.segments[0].sum;
  const te::Compute& c = *program.find_compute(sum);
  const Result<MatrixProduct> product = product_of(program, c);
  if (!product.ok() || product->narrow) return;
  const StoredProduct whole = stored(program, sum, constant_layouts(*product, c, task), {});
  add_tiles(chain, whole, task, base, target, candidates);
  const std::optional<StoredProduct> shared = with_filter_positions(whole, program, task, target);
  if (shared) add_tiles(chain, *shared, task, base, target, candidates);
}

}  // namespace tw::construct
