// Attention on GPUs whose keys are read block by block (te/online.h). A tile computes some rows of the last product.
// Each warp has rows of its own, from the scores to the result: sums of the first product stay in its registers, as
// their matrix instructions leave them, are combined along rows by the lanes that share one, and become the left
// operand of the second product where they are. Only keys and values pass through shared memory, a block ahead. Where
// warp groups have instructions of their own, four warps share 64 rows.

#include "construct/gpu/chain_kernels.h"
#include "construct/gpu/warp_rows.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using Names = std::vector<std::string>;

using Shape = StreamedTile;
constexpr auto kGroup = Multiplier::kWarpGroup;
constexpr Shape kGroupShapes[] = {{4, 1, 128, 2, kGroup}, {4, 1, 64, 2, kGroup},  {4, 1, 64, 3, kGroup},
                                  {4, 1, 192, 2, kGroup}, {8, 1, 128, 2, kGroup}, {8, 1, 128, 3, kGroup},
                                  {8, 1, 64, 2, kGroup},  {8, 1, 64, 3, kGroup},  {12, 1, 128, 2, kGroup}};
constexpr Shape kShapes[] = {{4, 1, 64, 2}, {4, 1, 64, 3}, {4, 1, 32, 2}, {4, 1, 32, 3}, {4, 1, 128, 2}, {4, 2, 64, 2},
                             {4, 2, 32, 3}, {2, 2, 64, 2}, {8, 1, 64, 2}, {8, 1, 32, 3}, {8, 2, 64, 2}};

class StreamedChain {
 public:
  StreamedChain(const StreamedProducts& products, const te::Online& online, const Shape& shape,
                const TargetInfo& target)
      : chain_(products.chain),
        scores_(products.scores),
        output_(products.output),
        maximum_(schedule::maximum_of(products.chain)),
        online_(online),
        values_(block_program(online), online.wide + ".block"),
        shape_(shape),
        target_(target),
        scores_tile_(rows_tile(shape, shape.block)),
        values_tile_(last_tile(shape, values_.n)) {
    scores_tile_.tile_k = round_up(scores_.k, by_groups() ? line() : kMatrixSteps);
    values_tile_.tile_k = shape.block;
  }
  StreamedChain(const StreamedChain&) = delete;
  StreamedChain& operator=(const StreamedChain&) = delete;

  static te::OnlineCut cut(const Shape& shape) { return {shape.block, kPairs, kPair}; }

  bool fits() const {
    const bool in_lines = !by_groups() || reads_in_lines(scores_, shape_.block, target_);
    return in_lines && find_row_of_maximum() >= 0 && construct::fits(shape_, work(), target_);
  }

  void schedule(Construction& out) {
    s_ = &out.schedule;
    s_->online(maximum_, shape_.block, kPairs, kPair);
    ProductLoops result(chain_.program, output_, values_tile_, target_, *s_);
    ProductLoops values(values_.program, values_.product, values_tile_, target_, *s_);
    ProductLoops scores(scores_.program, scores_.product, scores_tile_, target_, *s_);
    result.inline_epilogue();
    values.make_matrices();
    scores.make_matrices();
    set_layouts(values, scores);
    s_->inline_stage(values_.product.sum);
    if (!online_.kept.empty()) s_->inline_stage(online_.kept);
    const Names tiles = tile_output(result);
    for (const std::string& output : schedule::row_outputs(chain_)) s_->write_at(output, output_.output, tiles.back());
    lay_out(values.operand(Side::kLeft));
    s_->compute_at(rows(), output_.output, tiles.back(), loop::Scope::kRegister);
    map_rows();
    for (const std::string& output : schedule::row_outputs(chain_)) map_output(output);
    attach_block(values, scores);
    attach_operand(scores, Side::kLeft, output_.output, tiles.back());
    const bool tma = by_groups() && scores.may_fetch_blocks(Side::kRight, scores_.n) &&
                     values.may_fetch_blocks(Side::kRight, scores_.n);
    for (ProductLoops* loops : {&scores, &values})
      tma ? loops->fetch_blocks(Side::kRight, rows(), "r0") : attach_operand(*loops, Side::kRight, rows(), "r0");
    s_->carry(rows());
    out.predicted_ns = cost::streamed_ns(shape_, work(), target_);
    out.trace = {
        fmt::format("tiles of {} rows by {} threads, {} keys at a time, {} blocks of them under way, {} bytes "
                    "shared{}{}",
                    tile_rows(), shape_.threads(), shape_.block, shape_.stages, shared_bytes(),
                    by_groups() ? ", by matrix instructions of warp groups" : "", tma ? ", by TMA" : "")};
  }

 private:
  static te::Program block_program(const te::Online& online) {
    const std::string sum = online.wide + ".block";
    return schedule::segment_program(online.program, {sum, {sum}});
  }

  bool by_groups() const { return shape_.by_groups(); }
  int64_t half() const { return scores_.product.match.a.type().bytes(); }
  int64_t line() const { return line_elements(half()); }

  // Where operands lie for the instructions of warp groups: steps beside each other, or what is beside each other in
  // memory.
  static void set_blocks(ProductLoops& loops, Side side) {
    using Lines = ProductLoops::Lines;
    const bool by_steps = side == Side::kLeft || loops.access(side).by_steps;
    loops.set_layout(side, by_steps ? Lines::kBlocksOfSteps : Lines::kBlocksOfLines);
  }
  void set_layouts(ProductLoops& values, ProductLoops& scores) const {
    if (by_groups()) {
      set_blocks(scores, Side::kLeft);
      set_blocks(scores, Side::kRight);
      set_blocks(values, Side::kRight);
    } else if (!values.access(Side::kRight).by_steps) {
      values.set_layout(Side::kRight, ProductLoops::Lines::kBesideEachOther);
    }
  }
  void attach_operand(ProductLoops& loops, Side side, const std::string& stage, const std::string& loop) const {
    by_groups() ? loops.attach_blocks(side, stage, loop) : loops.attach_operand(side, stage, loop, loops.tile().tile_k);
  }

  StreamedWork work() const {
    return {scores_.batch, scores_.m, scores_.n, scores_.k + values_.n, registers(), shared_bytes()};
  }
  int64_t tile_rows() const { return shape_.tile_rows(); }
  size_t batch() const { return scores_.product.batch.size(); }  // axes
  std::string rows() const { return online_.wide + ".row"; }
  const std::string& scores() const { return chain_.segments[0].output(); }
  std::string powers() const { return maximum_ + ".exp"; }
  Names block_sums() const {
    return mapped(online_.sums, [](const std::string& sum) { return sum + ".block"; });
  }

  int64_t registers() const { return schedule::streamed_registers(shape_.rows, shape_.block, values_.n); }

  int64_t shared_bytes() const {
    const int64_t pad = by_groups() ? 0 : kBankBytes;
    const auto lines = [&](int64_t count, int64_t elements) { return count * (elements * half() + pad); };
    const int64_t columns = ThreadBlockTile::extent(values_tile_.columns);
    const int64_t values = std::max(lines(shape_.block, columns), lines(columns, shape_.block));
    return lines(tile_rows(), scores_tile_.tile_k) +
           shape_.stages * (lines(shape_.block, scores_tile_.tile_k) + values);
  }

  // What one warp's lanes hold of a block of keys, in all stages alike: pairs of neighbours.
  std::vector<Factor> key_factors() const {
    return {{shape_.block / kInstructionColumns, FactorKind::kUnrolled},
            {kPairs, FactorKind::kThreads},
            {kPair, FactorKind::kVector}};
  }
  // The axis of rows among those of the scores, and of all stages with the axes of their maximum.
  size_t row_of_scores() const { return scores_.product.rows.front(); }
  size_t row_of_maximum() const { return static_cast<size_t>(find_row_of_maximum()); }
  int64_t find_row_of_maximum() const {
    const te::Compute& max = *chain_.program.find_compute(maximum_);
    const std::vector<Expr> reads = te::reads_of(max, {chain_.program.tensor(scores())});
    if (reads.empty()) return -1;
    const Expr& index = reads.front().arg(static_cast<int>(row_of_scores()));
    return index_where(max.axes, [&](const te::Axis& a) { return equal(a.var(), index); });
  }

  // Every stage of rows is stored as the warps hold them.
  void lay_out(const std::string& weights) {
    const std::vector<Factor>& factors = values_tile_.rows;
    const size_t more = batch() + factors.size() + 1;  // the first dim behind rows
    const Layout of_scores = tiled(Layout(), row_of_scores(), scores_.m, factors);
    s_->layout(scores(), tiled(of_scores, more, scores_.n, scores_tile_.columns));
    const Layout of_rows = tiled(Layout(), row_of_maximum(), scores_.m, factors);
    s_->layout(maximum_ + ".block", of_rows);
    s_->layout(powers(), split(of_rows, more + 1, key_factors()));
    for (const std::string& sum : block_sums()) s_->layout(sum, of_rows);
    s_->layout(rows(), of_rows);
    // Matrices have one axis of batch, in front of lines that fill whole tiles.
    s_->layout(weights, split(tiled(Layout(), 1, round_up(scores_.m, tile_rows()), factors), factors.size() + 2,
                              step_factors(shape_.block)));
  }

  Names tile_output(ProductLoops& result) {
    Names tiles = result.tile_output();
    // Rows further down see more keys where a mask rules some out: the longest tiles begin first.
    const bool uneven = static_cast<bool>(online_.program.find_compute(rows())->needed);
    s_->parallel(output_.output, {tiles.begin(), tiles.end() - 1}, {}, uneven ? schedule::kLastFirst : "");
    return tiles;
  }

  // Axes of the batch, and at `row` among them those of rows; `dim` becomes the number of the next one.
  WarpLoops row_loops(size_t& dim, size_t batches, size_t row) const {
    WarpLoops loops;
    for (size_t d = 0; d <= batches; ++d) {
      loops.add_outer(1, dim);
      if (d == row) loops.add(values_tile_.rows, dim);
    }
    return loops;
  }

  // What combines the blocks of keys.
  void map_rows() {
    size_t dim = 0;
    WarpLoops loops = row_loops(dim, batch(), row_of_maximum());
    loops.add({{kPairs, FactorKind::kThreads}, {1, FactorKind::kUnrolled}, {kPair, FactorKind::kUnrolled}}, dim);
    loops.outer.emplace_back("r0");
    loops.order(*s_, rows());
    s_->pipeline(rows(), "r0", shape_.stages);
  }

  // What leaves the tile once a row: the first of the lanes that share the row stores it.
  void map_output(const std::string& stage) {
    const std::string row = fmt::format("i{}", row_of_maximum()), first = row + ".0";
    std::vector<int64_t> extents;
    Names parts;
    WarpLoops loops;
    for (size_t d = 0; d <= batch(); ++d) {
      if (d != row_of_maximum()) loops.outer.push_back(fmt::format("i{}", d));
    }
    for (const Factor& f : values_tile_.rows) {
      extents.push_back(f.extent);
      parts.push_back(fmt::format("{}.{}", row, extents.size()));
    }
    s_->split(stage, row, extents);
    s_->split(stage, first, {kPairs});  // of one
    loops.outer.push_back(first + ".0");
    loops.add(values_tile_.rows, parts);
    loops.lanes.push_back(first + ".1");
    loops.order(*s_, stage);
  }

  void attach(const std::string& stage) { s_->compute_at(stage, rows(), "r0", loop::Scope::kRegister); }

  // All that is computed of one block of keys; consumers first.
  void attach_block(ProductLoops& values, ProductLoops& scores) {
    values.attach_sums(rows(), "r0");
    const std::string weights = values.operand(Side::kLeft);
    attach(weights);
    size_t dim = 0;
    WarpLoops loops = row_loops(dim, 1, 1);
    loops.add(step_factors(shape_.block), dim);
    loops.order(*s_, weights);
    for (const std::string& sum : block_sums()) attach_combined(sum);
    attach(powers());
    dim = 0;
    loops = row_loops(dim, batch(), row_of_maximum());
    loops.add_outer(1, dim);
    loops.add(key_factors(), dim);
    loops.order(*s_, powers());
    attach_combined(maximum_ + ".block");
    attach(this->scores());
    dim = 0;
    loops = row_loops(dim, batch(), row_of_scores());
    loops.add_outer(1, dim);
    loops.add(scores_tile_.columns, dim);
    loops.order(*s_, this->scores());
    scores.attach_sums(this->scores(), loops.outer.back());
  }

  // A reduction over a block of keys: lanes that share a row combine what each holds of it.
  void attach_combined(const std::string& stage) {
    attach(stage);
    size_t dim = 0;
    WarpLoops loops = row_loops(dim, batch(), row_of_maximum());
    loops.add_outer(1, dim);
    s_->split(stage, "r0", {kPairs, kPair});
    const Names held = {"r0.0", "r0.2"};
    s_->reorder(stage, joined(joined(loops.outer, loops.inner, loops.warps), joined(loops.lanes, Names{"r0.1"}), held));
    for (const std::string& l : joined(loops.warps, loops.lanes, Names{"r0.1"})) s_->threads(stage, l);
    for (const std::string& l : joined(loops.inner, held)) s_->unroll(stage, l);
  }

  const Chain& chain_;
  const Link& scores_;
  const MatrixProduct& output_;
  std::string maximum_;
  const te::Online& online_;
  Link values_;
  Shape shape_;
  const TargetInfo& target_;
  ThreadBlockTile scores_tile_, values_tile_;
  schedule::Schedule* s_ = nullptr;
};

}  // namespace

ThreadBlockTile rows_tile(const StreamedTile& tile, int64_t columns) {
  if (tile.by_groups()) return tile_of(GroupTile{tile.warps / kGroupWarps, tile.rows, columns}, kPair);
  return tile_of(WarpTile{tile.warps, 1, tile.rows, columns / kInstructionColumns}, kPair);
}

ThreadBlockTile last_tile(const StreamedTile& tile, int64_t columns) {
  const int64_t whole = round_up(columns, kInstructionColumns);
  return tile.by_groups() ? tile_of_blocks({tile.warps / kGroupWarps, tile.rows, whole}) : rows_tile(tile, whole);
}

bool reads_in_lines(const Link& link, int64_t columns, const TargetInfo& target) {
  const MatrixProduct& p = link.product;
  const te::Axis& column = link.program.find_compute(p.sum)->axes[p.columns.back()];
  return access_of(p.match.b, p.steps.back(), column, target).by_steps ||
         columns <= line_elements(p.match.b.type().bytes());
}

bool fits(const StreamedTile& tile, const StreamedWork& work, const TargetInfo& target) {
  const bool rows = tile.tile_rows() / 2 < round_up(work.m, kInstructionRows);
  const bool length = tile.block / 2 < round_up(work.length, kMatrixSteps);
  return rows && length && work.registers <= schedule::kMaxStreamedRegisters &&
         work.registers * tile.block_threads() <= target.sm.registers &&
         work.shared_bytes <= target.levels.front().capacity_bytes;
}

void add_streamed(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
                  Candidates& candidates) {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  if (has_feature(target, "wgmma")) shapes.insert(shapes.begin(), std::begin(kGroupShapes), std::end(kGroupShapes));
  add_by_blocks<StreamedChain>(products, shapes, StreamedChain::cut, base, target, candidates);
}

}  // namespace tw::construct
