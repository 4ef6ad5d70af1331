// Attention of few queries against many keys, as in decoding (Dao et al. 2023: "Flash-Decoding"): one block of keys
// (te/online.h) is a tile's, and leaves maximum, sum and weighted values, relative to that maximum, in memory. A second
// kernel combines the tuples of a row, a thread for each column. All keys and values of a tile are on their way to
// shared memory at once; the rows between the products are stored there, too.

#include "construct/elementwise.h"
#include "construct/gpu/chain_kernels.h"
#include "construct/gpu/row_mapping.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Chain;
using Names = std::vector<std::string>;

constexpr int64_t kTogether = 8;      // tuples that a thread loads at a time
constexpr int64_t kMaxThreads = 128;  // of a tile of the second kernel

struct Shape {
  int64_t rows, warps, keys;
};
constexpr Shape kShapes[] = {{16, 4, 64},  {16, 4, 128}, {16, 4, 256}, {32, 4, 64},
                             {32, 4, 128}, {32, 4, 256}, {64, 4, 64},  {64, 4, 128}};

class SplitChain {
 public:
  SplitChain(const StreamedProducts& products, const te::Online& online, const Shape& shape, const TargetInfo& target)
      : chain_(products.chain),
        scores_(products.scores),
        maximum_(schedule::maximum_of(products.chain)),
        online_(online),
        values_(schedule::segment_program(online.program, {part(online.wide), {part(online.wide)}}), part(online.wide)),
        shape_(shape),
        target_(target),
        scores_tile_(product_tile(shape.keys, shape.rows, shape.warps)),
        values_tile_(product_tile(values_.n, shape.rows, shape.warps)),
        row_{shape.keys, 1, shape.warps * kWarpThreads / shape.rows} {
    scores_tile_.tile_k = round_up(scores_.k, kMatrixSteps);
    values_tile_.tile_k = 4 * kMatrixSteps;
  }
  SplitChain(const SplitChain&) = delete;
  SplitChain& operator=(const SplitChain&) = delete;

  // Each column of the result has a holder of its own.
  static te::OnlineCut cut(const Shape& shape, int64_t columns) { return {shape.keys, columns, 1}; }

  // Whether one tile has all rows, and not twice as many, of all keys of a part.
  bool fits() const {
    const bool rows = shape_.rows >= scores_.m && shape_.rows / 2 < round_up(scores_.m, kInstructionRows);
    return rows && ThreadBlockTile::extent(scores_tile_.columns) == shape_.keys &&
           ThreadBlockTile::extent(values_tile_.columns) >= values_.n &&
           shape_.keys / 2 < round_up(scores_.n, kMatrixSteps) &&
           shared_bytes() <= target_.levels.front().capacity_bytes;
  }

  double predicted_ns() const {
    const int64_t operand_bytes = half() * shape_.keys * (scores_.k + values_.n);
    return cost::split_ns({scores_.batch, parts(), shared_bytes(), operand_bytes}, target_);
  }

  void schedule(Construction& out) {
    s_ = &out.schedule;
    const te::OnlineCut by = cut(shape_, values_.n);
    s_->online(maximum_, by.block, by.each, by.width);
    for (const std::string& member : row_members()) s_->cache_read(part(member), {whole()});
    schedule_parts();
    schedule_combination();
    out.predicted_ns = predicted_ns();
    out.trace = {
        fmt::format("tiles of {} rows and {} keys by {} threads, {} bytes shared, {} parts of a row combined by "
                    "a second kernel",
                    shape_.rows, shape_.keys, shape_.warps * kWarpThreads, shared_bytes(), parts())};
  }

 private:
  static std::string part(const std::string& tensor) { return tensor + ".block"; }
  std::string whole() const { return online_.wide + ".row"; }
  const std::string& scores() const { return chain_.segments[0].output(); }
  std::string powers() const { return maximum_ + ".exp"; }
  int64_t parts() const { return ceil_div(scores_.n, shape_.keys); }
  int64_t half() const { return scores_.product.match.a.type().bytes(); }
  size_t batch() const { return scores_.product.batch.size(); }  // axes
  static std::string axis(size_t d) { return fmt::format("i{}", d); }

  // What there is once a row: its sums, and the maximum.
  Names row_members() const { return joined(online_.sums, Names{maximum_}); }

  int64_t shared_bytes() const {
    const auto lines = [&](int64_t count, int64_t bytes) { return count * (bytes + kBankBytes); };
    const int64_t columns = ThreadBlockTile::extent(values_tile_.columns), depth = scores_tile_.tile_k;
    const int64_t values = std::max(lines(shape_.keys, columns * half()), lines(columns, shape_.keys * half()));
    const int64_t of_rows = lines(shape_.rows, depth * half()) + lines(shape_.rows, shape_.keys * half()) +
                            lines(shape_.rows, shape_.keys * DataType::f32().bytes());
    return lines(shape_.keys, depth * half()) + values + of_rows + kReservedShared;
  }

  // The first kernel: values of one part, and beside them what there is once a row.
  void schedule_parts() {
    ProductLoops scores(scores_.program, scores_.product, scores_tile_, target_, *s_);
    ProductLoops values(values_.program, values_.product, values_tile_, target_, *s_);
    values.make_matrices();
    scores.make_matrices();
    if (!values.access(Side::kRight).by_steps) values.set_layout(Side::kRight, ProductLoops::Lines::kBesideEachOther);
    s_->inline_stage(powers());
    if (!online_.kept.empty()) s_->inline_stage(online_.kept);
    const std::string root = values_.product.output;
    Names tiles = values.tile_output();
    const std::string loop = tiles.back();
    tiles.pop_back();
    // One turn of a loop that brings all operands at once.
    s_->split(root, tiles.back(), {1});
    const std::string fetch = tiles.back() + ".1";
    tiles.back() += ".0";
    s_->parallel(root, tiles).pipeline(root, fetch, 2);
    values.attach_sums(root, loop);
    const std::string weights = values.operand(Side::kLeft);
    attach(weights, root, loop, kBankBytes / half());
    row_.map_to_threads(*s_, weights, axis(1), axis(2));
    for (const std::string& member : row_members()) {
      const std::string copy = part(member) + ".cache";
      s_->write_at(copy, root, loop);
      bring_rows_last(copy, axis(batch()), axis(batch() + 1));
      s_->threads(copy, axis(batch()));
      attach(part(member), root, loop, 0);
      bring_rows_last(part(member), axis(batch()), axis(batch() + 1));
      row_.map_to_threads(*s_, part(member), axis(batch()), "r0");
    }
    attach(this->scores(), root, loop, kBankBytes / online_.program.tensor(this->scores()).type.bytes());
    scores.attach_sums(this->scores(), scores.tile_output().back());
    scores.attach_operand(Side::kLeft, root, fetch, scores_tile_.tile_k);
    scores.attach_operand(Side::kRight, root, fetch, scores_tile_.tile_k);
    values.attach_operand(Side::kRight, root, fetch, shape_.keys);
  }

  void attach(const std::string& stage, const std::string& root, const std::string& loop, int64_t pad) {
    s_->compute_at(stage, root, loop, loop::Scope::kStack, pad);
  }

  // Of a tile there is one part: its loop is around that of rows, whose threads are neighbours of those inside.
  void bring_rows_last(const std::string& stage, const std::string& row, const std::string& part) {
    s_->reorder(stage, {part, row});
  }

  // The second kernel.
  void schedule_combination() {
    for (const te::Compute& c : chain_.program.computes) {
      const bool follows = c.name() == chain_.last || te::depends_on(chain_.program, c, chain_.last);
      if (follows && c.name() != chain_.output) s_->inline_stage(c.name());
    }
    const te::Compute& out = *chain_.program.find_compute(chain_.output);
    const int64_t threads = threads_for(num_elements(out.outputs[0].shape), kMaxThreads, target_);
    const std::string thread = map_to_threads(*s_, chain_.output, te::axis_names(out.axes), threads);
    s_->compute_at(whole(), chain_.output, thread, loop::Scope::kRegister);
    Names order;
    for (size_t d = 0; d < batch() + 2; ++d) order.push_back(axis(d));  // rows, and the holders of their columns
    int64_t together = kTogether;
    while (parts() % together != 0) together /= 2;
    s_->split(whole(), "r0", {together});
    append(order, Names{"r0.0", "r0.1", axis(batch() + 2), axis(batch() + 3)});
    s_->reorder(whole(), order).unroll(whole(), "r0.1");
  }

  const Chain& chain_;
  const Link& scores_;
  std::string maximum_;
  const te::Online& online_;
  Link values_;
  Shape shape_;
  const TargetInfo& target_;
  ThreadBlockTile scores_tile_, values_tile_;
  RowMapping row_;
  schedule::Schedule* s_ = nullptr;
};

}  // namespace

void add_split(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
               Candidates& candidates) {
  const te::Compute& last = *products.chain.program.find_compute(products.chain.last);
  const int64_t columns = extent_at(last, products.output.columns);
  const auto cut_of = [&](const Shape& shape) { return SplitChain::cut(shape, columns); };
  add_by_blocks<SplitChain>(products, kShapes, cut_of, base, target, candidates);
}

}  // namespace tw::construct
