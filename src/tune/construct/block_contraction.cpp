// Sums of products on devices whose tiles have threads: matrix products, convolutions, their batched and grouped forms.
// Every one becomes a product of two matrices (kMatrices). A tile of sums lies in registers; its operands pass through
// memory that its threads share, a block of steps at a time, with whatever padding and gathering their maths says done
// on the way.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "schedule/contraction.h"
#include "schedule/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "tune/construct/block_product.h"

namespace tw::tune {
namespace {

constexpr int64_t kMostUnrolled = 16;
constexpr double kCyclesPerNs = 1.7;

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "$")); }

std::vector<std::string> names_at(const te::Compute& c, const std::vector<size_t>& places) {
  std::vector<std::string> names;
  for (const size_t i : places) names.push_back(c.axes[i].name);
  return names;
}

// The loops of an axis that is cut as a tile is: that of tiles, then one for each factor.
struct Cut {
  std::string tile;
  std::vector<std::pair<std::string, Part>> factors;
};

class BlockContraction {
 public:
  BlockContraction(const te::Program& program, const Product& product, const BlockTile& tile, const TargetInfo& target,
                   Construction& out)
      : program_(program),
        sum_(*program.find_compute(product.sum)),
        p_(product),
        tile_(tile),
        target_(target),
        first_(product.batch.empty() ? 0 : 1),
        out_(out) {}

  void run() {
    std::vector<std::string> steps;
    for (const te::Axis& r : p_.steps) steps.push_back(r.name);
    std::vector<std::string> roles = {joined(names_at(sum_, p_.rows)), joined(names_at(sum_, p_.columns)),
                                      joined(steps)};
    if (first_ == 1) roles.push_back(joined(names_at(sum_, p_.batch)));
    s().matrices(p_.sum, roles, {line_extent(true), line_extent(false), tile_.steps}, p_.taps ? p_.taps->name : "");
    if (!by_matrix()) {
      for (const bool left : {true, false}) s().layout(operand(left), lines_last());
    }
    const int64_t columns = ceil_div(extent_at(sum_, p_.columns), line_extent(false)) * line_extent(false);
    const size_t column = first_ + (p_.taps ? 1 : 0);
    const Layout dealt = dealt_out(tile_, static_cast<int>(column), column + 2, columns);
    if (!dealt.is_identity()) s().layout(operand(false), dealt);
    s().layout(acc(), sums_layout());
    inline_epilogue();
    s().compute_at(acc(), p_.output, cut_output(), loop::Scope::kRegister);
    const std::string loop = cut_sums();
    for (const bool left : {true, false}) tile_.boxes ? attach_box(left, loop) : attach_operand(left, loop);
    s().pipeline(acc(), loop, tile_.stages);
    out_.trace = {
        fmt::format("tiles of {} x {} sums by {} threads, {} steps at a time, {} blocks of them under way{}{}{}{}",
                    line_extent(true), line_extent(false), tile_.threads(), tile_.steps, tile_.stages,
                    tile_.multiplier == Multiplier::kWarpGroup ? ", by matrix instructions of warp groups"
                    : by_matrix()                              ? ", by matrix instructions"
                                                               : "",
                    tile_.boxes ? ", brought by the copy engine" : "",
                    p_.taps ? fmt::format(", one for {} taps of windows", p_.taps->extent) : "",
                    tile_.row_cluster > 1      ? ", pairs of tiles sharing columns"
                    : tile_.column_cluster > 1 ? ", pairs of tiles sharing rows"
                                               : "")};
  }

 private:
  schedule::Schedule& s() { return out_.schedule; }
  bool by_matrix() const { return tile_.by_matrix(); }
  std::string acc() const { return p_.sum + ".acc"; }
  std::string operand(bool left) const { return p_.sum + (left ? ".lhs" : ".rhs"); }
  int64_t line_extent(bool left) const { return BlockTile::extent(left ? tile_.rows : tile_.columns); }
  static std::string axis(size_t d) { return fmt::format("i{}", d); }

  // Pixels that a row of windows reads where taps share them; else those it has.
  int64_t pixels_read() const { return sum_.axes[p_.rows.back()].extent + tile_.reach; }
  int64_t rows_read() const { return extent_at(sum_, p_.rows) / sum_.axes[p_.rows.back()].extent * pixels_read(); }

  // [batch, line, step] -> [batch, step, line]: threads read neighbouring lines at one step.
  Layout lines_last() const {
    std::vector<int64_t> order;
    for (size_t d = 0; d < first_; ++d) order.push_back(static_cast<int64_t>(d));
    const auto line = static_cast<int64_t>(first_);
    order.insert(order.end(), {line + 1, line});
    return Layout().reorder(order);
  }

  // [batch, rows, columns] -> [batch, tiles, factors of rows.., tiles, factors of columns..].
  Layout sums_layout() const {
    Layout layout;
    size_t dim = first_;
    for (const bool left : {true, false}) {
      const std::vector<Factor>& factors = left ? tile_.rows : tile_.columns;
      const int64_t all = left ? rows_read() : extent_at(sum_, p_.columns);
      std::vector<int64_t> extents = {ceil_div(all, line_extent(left))};
      for (const Factor& f : factors) extents.push_back(f.extent);
      layout = layout.split(static_cast<int>(dim), extents);
      dim += extents.size();
    }
    return layout;
  }

  // Everything from the sum up to the output is computed where that is.
  void inline_epilogue() {
    for (const te::Compute& c : program_.computes) {
      const bool follows = c.name() == p_.sum || te::depends_on(program_, c, p_.sum);
      if (follows && c.name() != p_.output) s().inline_stage(c.name());
    }
  }

  std::string fused(const std::string& stage, const std::vector<std::string>& names) {
    if (names.size() > 1) s().fuse(stage, names);
    return joined(names);
  }

  // Tiles and threads of the output. Returns the loop that holds a tile.
  std::string cut_output() {
    const te::Compute& y = *program_.find_compute(p_.output);
    const std::vector<std::string> batch = names_at(y, p_.batch), columns = names_at(y, p_.columns);
    std::vector<std::string> rows = names_at(y, p_.rows);
    if (p_.taps) {  // a row of pixels goes on to the last one that is read
      const std::string pixel = rows.back();
      s().split(y.name(), pixel, {pixels_read()});
      rows.back() = pixel + ".0";
      rows.push_back(pixel + ".1");
    }
    std::vector<std::string> order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    s().reorder(y.name(), order);
    std::vector<std::string> tiles;
    if (!batch.empty()) tiles.push_back(fused(y.name(), batch));
    const Cut row = split(y.name(), fused(y.name(), rows), tile_.rows);
    const Cut column = split(y.name(), fused(y.name(), columns), tile_.columns);
    // Neighbours of a cluster share the columns or the rows.
    const bool columns_first = tile_.row_cluster > 1;
    tiles.insert(tiles.end(), {columns_first ? column.tile : row.tile, columns_first ? row.tile : column.tile});
    order = tiles;
    add_threads(row, column, order);
    for (const Cut* cut : {&row, &column}) {
      for (const auto& [loop, part] : cut->factors) {
        if (part != Part::kThreads) order.push_back(loop);
      }
    }
    s().reorder(y.name(), order).parallel(y.name(), tiles, tile_.row_cluster * tile_.column_cluster);
    for (const Cut* cut : {&row, &column}) {
      for (const auto& [loop, part] : cut->factors) {
        const bool vector = part == Part::kVector || part == Part::kMatrixVector;
        part == Part::kThreads ? s().threads(y.name(), loop)
        : vector               ? s().vectorize(y.name(), loop)
                               : s().unroll(y.name(), loop);
      }
    }
    return tiles.back();
  }

  Cut split(const std::string& stage, const std::string& loop, const std::vector<Factor>& factors) {
    Cut cut{loop + ".0", {}};
    std::vector<int64_t> extents;
    for (const Factor& f : factors) {
      extents.push_back(f.extent);
      cut.factors.emplace_back(fmt::format("{}.{}", loop, extents.size()), f.part);
    }
    s().split(stage, loop, extents);
    return cut;
  }

  // Threads of rows, then of columns, and last the innermost of both: a warp's lanes, as matrix instructions deal them
  // out.
  static void add_threads(const Cut& row, const Cut& column, std::vector<std::string>& order) {
    std::vector<std::string> lanes;
    for (const Cut* cut : {&row, &column}) {
      std::vector<std::string> loops;
      for (const auto& [loop, part] : cut->factors) {
        if (part == Part::kThreads) loops.push_back(loop);
      }
      order.insert(order.end(), loops.begin(), loops.end() - 1);
      lanes.push_back(loops.back());
    }
    order.insert(order.end(), lanes.begin(), lanes.end());
  }

  // Columns that a thread holds together are pairs of several instructions.
  void split_pairs(Cut& column) {
    const std::string together = column.factors.back().first;
    if (tile_.columns.back().extent == 2) return;
    s().split(acc(), together, {2});
    const bool group = tile_.multiplier == Multiplier::kWarpGroup;
    column.factors.back() = {together + ".0", group ? Part::kMatrix : Part::kUnrolled};
    column.factors.emplace_back(together + ".1", Part::kMatrixVector);
  }

  // The loops of the sums, whose axes are those of sums_layout(). Returns the loop of blocks of steps.
  std::string cut_sums() {
    size_t dim = first_;
    const auto cut_of = [&](const std::vector<Factor>& factors) {
      Cut cut{axis(dim++), {}};
      for (const Factor& f : factors) cut.factors.emplace_back(axis(dim++), f.part);
      return cut;
    };
    const Cut row = cut_of(tile_.rows);
    Cut column = cut_of(tile_.columns);
    if (by_matrix()) split_pairs(column);
    std::vector<int64_t> steps = {tile_.steps};
    if (by_matrix()) steps = {tile_.steps / kMatrixSteps, kMatrixSteps};
    s().split(acc(), "r0", steps);
    std::vector<std::string> order;
    if (first_ == 1) order.push_back(axis(0));
    order.insert(order.end(), {row.tile, column.tile, "r0.0"});
    add_threads(row, column, order);
    if (p_.taps) order.emplace_back("r1");
    order.emplace_back("r0.1");
    std::vector<std::string> matrix;
    const std::array<const Cut*, 2> cuts = {&row, &column};
    for (const Cut* cut : cuts) {
      for (const auto& [loop, part] : cut->factors) {
        if (part == Part::kMatrix || part == Part::kMatrixVector) matrix.push_back(loop);
        if (part == Part::kUnrolled || part == Part::kVector) order.push_back(loop);
      }
    }
    order.insert(order.end(), matrix.begin(), matrix.end());
    if (by_matrix()) order.emplace_back("r0.2");
    s().reorder(acc(), order);
    for (const Cut* cut : cuts) {
      for (const auto& [loop, part] : cut->factors) {
        if (part == Part::kThreads) s().threads(acc(), loop);
        if (part == Part::kUnrolled) s().unroll(acc(), loop);
        if (part == Part::kVector) s().vectorize(acc(), loop);
      }
    }
    if (p_.taps) s().unroll(acc(), "r1");
    if (by_matrix()) s().unroll(acc(), "r0.1").tensorize(acc(), matrix.front(), "mma", {});
    return "r0.0";
  }

  void attach_box(bool left, const std::string& loop) {
    s().compute_at(operand(left), acc(), loop, loop::Scope::kStack, 0);
    s().tensorize(operand(left), axis(first_), "bulk", {});
  }

  // An operand's block of steps, copied by all threads into the memory that they share.
  void attach_operand(bool left, const std::string& loop) {
    const std::string stage = operand(left);
    const Expr& read = left ? p_.match.a : p_.match.b;
    Access access = access_of(read, p_.steps.back(), sum_.axes[(left ? p_.rows : p_.columns).back()], target_);
    const int64_t extent = access.by_steps ? tile_.steps : line_extent(left);
    access.lanes = std::gcd(access.lanes, extent);
    const int64_t bytes = read.type().bytes();
    s().compute_at(stage, acc(), loop, loop::Scope::kStack, tile_.line_pad_bytes() / bytes);
    const bool steps_last = by_matrix();
    std::string fast = axis(first_ + (access.by_steps == steps_last ? 1 : 0));
    std::string slow = axis(first_ + (access.by_steps == steps_last ? 0 : 1));
    std::string lane;
    if (access.lanes > 1) {
      s().split(stage, fast, {access.lanes});
      lane = fast + ".1";
      fast += ".0";
    }
    std::vector<std::string> order = {slow, fast};
    if (!lane.empty()) order.push_back(lane);
    s().reorder(stage, order).fuse(stage, {slow, fast});
    const std::string all = joined({slow, fast});
    s().split(stage, all, {tile_.threads()}).reorder(stage, {all + ".1", all + ".0"});
    s().threads(stage, all + ".1");
    const int64_t turns = ceil_div(line_extent(left) * tile_.steps / access.lanes, tile_.threads());
    if (turns <= kMostUnrolled) s().unroll(stage, all + ".0");
    if (!lane.empty()) s().vectorize(stage, lane);
  }

  const te::Program& program_;
  const te::Compute& sum_;
  const Product& p_;
  const BlockTile& tile_;
  const TargetInfo& target_;
  size_t first_;  // the first axis of matrices behind the batch
  Construction& out_;
};

// One tile of one way to sum.
struct Choice {
  const StoredProduct* product;
  BlockProblem problem;
  BlockTile tile;
  double cycles;
};

// The schedule of the kernel that adds the parts of sums.
Result<schedule::Schedule> adding(const te::Program& rest, const TargetInfo& target) {
  const Result<Candidates> columns = construct_block_columns({rest, {}}, target);
  if (!columns.ok()) return Reason{columns.reason()};
  return columns->front().schedule;
}

// `whole`, and what of it can be summed in parts.
std::vector<StoredProduct> ways_to_sum(const StoredProduct& whole, const te::Program& program, const GroupTask& task,
                                       const TargetInfo& target) {
  std::vector<StoredProduct> ways = {whole};
  if (std::optional<StoredProduct> shared = with_taps(whole, program, task, target)) ways.push_back(*std::move(shared));
  for (const Parts& parts : parts_of(whole, problem_of(whole, task, target), target)) {
    StoredProduct split = stored(program, whole.product.sum, whole.layouts, parts);
    if (adding(split.rest, target).ok()) ways.push_back(std::move(split));
  }
  return ways;
}

// Tiles of all of them, best predicted first: at most half of them sum parts, the best of a kind for each count.
std::vector<Choice> choices_of(const std::vector<StoredProduct>& ways, const GroupTask& task,
                               const TargetInfo& target) {
  constexpr size_t kMost = 12, kMostSplit = 6;
  std::vector<Choice> all, chosen;
  for (const StoredProduct& way : ways) {
    const BlockProblem problem = problem_of(way, task, target);
    for (const BlockTile& tile : block_tiles(problem, target))
      all.push_back({&way, problem, tile, predicted_cycles(tile, problem, target)});
  }
  std::ranges::stable_sort(all, {}, &Choice::cycles);
  std::set<std::tuple<int64_t, bool, bool>> split;
  for (const Choice& c : all) {
    const bool whole = c.problem.parts == 1, pairs = c.tile.row_cluster * c.tile.column_cluster > 1;
    if (chosen.size() == kMost || (!whole && split.size() == kMostSplit)) continue;
    if (whole || split.insert({c.problem.parts, c.tile.boxes, pairs}).second) chosen.push_back(c);
  }
  return chosen;
}

}  // namespace

Result<Candidates> construct_block_contraction(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const te::Program program =
      schedule::inline_stages(base.schedule, task.program, [](const te::Compute&) { return false; });
  const te::Compute* found = schedule::find_contraction(program);
  if (found == nullptr) return declined("no sum of products");
  const std::string name = found->name();
  if (schedule::has_empty_axis(*found)) return declined("{} has an axis of extent 0", name);
  for (const te::Compute& c : program.computes) {
    if (c.name() != name && !te::depends_on(program, c, name)) return declined("{} comes before {}", c.name(), name);
  }
  const Result<Product> product = product_of(program, *found);
  if (!product.ok()) return Reason{product.reason()};
  const std::vector<StoredProduct> ways =
      ways_to_sum(stored(program, name, constant_layouts(*product, *found, task), {}), program, task, target);
  Candidates candidates;
  for (const Choice& choice : choices_of(ways, task, target)) {
    const StoredProduct dealt = stored_for(choice.tile, *choice.product, program, task);
    Construction candidate = base;
    candidate.constant_layouts = dealt.layouts;
    if (dealt.parts.count > 1) {
      for (const schedule::Schedule& s : {dealt.split, adding(dealt.rest, target).value()}) {
        for (const schedule::Primitive& p : s.primitives()) candidate.schedule.add(p);
      }
    }
    BlockContraction(dealt.program, dealt.product, choice.tile, target, candidate).run();
    if (dealt.parts.count > 1)
      candidate.trace.front() += fmt::format(", sums in {} parts, which a second kernel adds", dealt.parts.count);
    candidate.predicted_ns = choice.cycles / kCyclesPerNs;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tw::tune
