// Sums of products on devices whose tiles have threads: matrix products, convolutions, their batched and grouped forms.
// Every one becomes a product of two matrices (kMatrices). A tile of sums lies in registers; its operands pass through
// memory that its threads share, a block of steps at a time, with whatever padding and gathering their maths says done
// on the way.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/target_features.h"
#include "expr/affine.h"
#include "expr/analyzer.h"
#include "schedule/contraction.h"
#include "schedule/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tune/construct/block_tile.h"
#include "tune/construct/construct.h"
#include "tune/construct/contraction_operands.h"

namespace tw::tune {
namespace {

using schedule::Contraction;

constexpr int64_t kMostUnrolled = 16;
constexpr int64_t kLeastLines = 8;  // of a product whose operands are worth sharing
constexpr double kCyclesPerNs = 1.7;

/// A contraction whose axes have roles, by position in the output's axes.
struct Product {
  std::string sum, output;
  Contraction match;
  std::vector<size_t> rows, columns, batch;
  std::vector<te::Axis> steps;
};

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "$")); }

std::vector<std::string> names_at(const te::Compute& c, const std::vector<size_t>& places) {
  std::vector<std::string> names;
  for (const size_t i : places) names.push_back(c.axes[i].name);
  return names;
}

int64_t extent_at(const te::Compute& c, const std::vector<size_t>& places) {
  int64_t all = 1;
  for (const size_t i : places) all *= c.axes[i].extent;
  return all;
}

// Rows are axes of A alone, columns of B alone; what both have is the batch.
Result<Product> product_of(const te::Program& program, const te::Compute& sum) {
  const Result<Contraction> match = schedule::match_contraction(sum);
  if (!match.ok()) return Reason{match.reason()};
  if (match->words || !sum.outputs[0].type.is_float()) return declined("{} multiplies words", sum.name());
  const Result<std::string> output = schedule::epilogue_output(program, sum);
  if (!output.ok()) return Reason{output.reason()};
  Product p{sum.name(), *output, *match, {}, {}, {}, reduction_order(program, *match)};
  for (size_t i = 0; i < sum.axes.size(); ++i) {
    const bool in_a = schedule::uses_axis(match->a, sum.axes[i].name);
    const bool in_b = schedule::uses_axis(match->b, sum.axes[i].name);
    const bool of_both = in_a && in_b;
    (of_both ? p.batch : in_b ? p.columns : p.rows).push_back(i);
    if (!of_both && match->condition && uses_var(match->condition, sum.axes[i].name))
      return declined("which products {} sums depends on its rows or columns", sum.name());
  }
  if (p.rows.empty() || p.columns.empty()) return declined("{} has no rows or no columns of its own", sum.name());
  if (extent_at(sum, p.rows) < kLeastLines || extent_at(sum, p.columns) < kLeastLines)
    return declined("{} is no product of matrices but of vectors", sum.name());
  return p;
}

// Operands that are constants, stored as they are read: batch, lines, steps; steps next to each other.
std::map<std::string, Layout> constant_layouts(const Product& p, const te::Compute& sum, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  for (const bool left : {true, false}) {
    const Expr& read = left ? p.match.a : p.match.b;
    if (!task.constants.contains(read->name)) continue;
    std::vector<int64_t> order;
    const auto add = [&](const te::Axis& axis) {
      const int d = schedule::dim_of_axis(read, axis.name);
      if (d >= 0) order.push_back(d);
    };
    for (const size_t i : p.batch) add(sum.axes[i]);
    for (const size_t i : left ? p.rows : p.columns) add(sum.axes[i]);
    for (const te::Axis& r : p.steps) add(r);
    const bool in_order = std::ranges::is_sorted(order);
    if (order.size() == read->args.size() && !in_order) layouts[read->name] = Layout().reorder(order);
  }
  return layouts;
}

// What of an operand one access moves: neighbours along its steps or along its lines, as it lies in memory.
struct Access {
  bool by_steps = true;
  int64_t lanes = 1;
};

Access access_of(const Product& p, const te::Compute& sum, bool left, const TargetInfo& target) {
  const Expr& read = left ? p.match.a : p.match.b;
  const auto lanes_along = [&](const te::Axis& axis) {
    if (read->args.empty() || coefficient_of(read->args.back(), axis.name).value_or(0) != 1) return int64_t{0};
    int64_t lanes = target.vector_bytes / read.type().bytes();
    while (axis.extent % lanes != 0) lanes /= 2;
    return lanes;
  };
  const int64_t steps = lanes_along(p.steps.back());
  const int64_t along = lanes_along(sum.axes[(left ? p.rows : p.columns).back()]);
  return along > steps ? Access{false, along} : Access{true, std::max<int64_t>(1, steps)};
}

// Where the instructions of a tile leave column i, dim `dim` of an operand of `rank` dims: each thread holds pairs of
// columns of several of them (BlockTile), which are neighbours in the output.
Layout dealt_out(const BlockTile& tile, int dim, size_t rank, int64_t columns) {
  constexpr int64_t kPairs = 4;
  const int64_t together = tile.columns.back().extent / 2;
  if (!tile.by_matrix() || together == 1) return {};
  std::vector<int64_t> order(rank + 3);
  std::iota(order.begin(), order.end(), 0);
  // [block, pair, instruction, column of a pair] -> [block, instruction, pair, column of a pair]
  std::swap(order[static_cast<size_t>(dim) + 1], order[static_cast<size_t>(dim) + 2]);
  return Layout()
      .split(dim, {columns / (2 * kPairs * together), kPairs, together, 2})
      .reorder(std::move(order))
      .fuse(dim, kPairs);
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
    s().matrices(p_.sum, roles, {line_extent(true), line_extent(false), tile_.steps});
    if (!by_matrix()) {
      for (const bool left : {true, false}) s().layout(operand(left), lines_last());
    }
    const int64_t columns = ceil_div(extent_at(sum_, p_.columns), line_extent(false)) * line_extent(false);
    const Layout dealt = dealt_out(tile_, static_cast<int>(first_), first_ + 2, columns);
    if (!dealt.is_identity()) s().layout(operand(false), dealt);
    s().layout(acc(), sums_layout());
    inline_epilogue();
    s().compute_at(acc(), p_.output, cut_output(), loop::Scope::kRegister);
    const std::string loop = cut_sums();
    for (const bool left : {true, false}) tile_.boxes ? attach_box(left, loop) : attach_operand(left, loop);
    s().pipeline(acc(), loop, tile_.stages);
    out_.trace = {
        fmt::format("tiles of {} x {} sums by {} threads, {} steps at a time, {} blocks of them under way{}{}{}",
                    line_extent(true), line_extent(false), tile_.threads(), tile_.steps, tile_.stages,
                    tile_.multiplier == Multiplier::kWarpGroup ? ", by matrix instructions of warp groups"
                    : by_matrix()                              ? ", by matrix instructions"
                                                               : "",
                    tile_.boxes ? ", brought by the copy engine" : "",
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
      const int64_t all = extent_at(sum_, left ? p_.rows : p_.columns);
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
    const std::vector<std::string> batch = names_at(y, p_.batch), rows = names_at(y, p_.rows),
                                   columns = names_at(y, p_.columns);
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
    Access access = access_of(p_, sum_, left, target_);
    const int64_t extent = access.by_steps ? tile_.steps : line_extent(left);
    access.lanes = std::gcd(access.lanes, extent);
    const int64_t bytes = (left ? p_.match.a : p_.match.b).type().bytes();
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

// Whether `read` is [image, spatial.., channel] with the lines' axes in this order, each spatial index a window's: a
// multiple of its axis, and of at most one axis of the window, plus a constant; within what the copy engine can say
// (PTX ISA, "im2col mode": corners and places of 16, 8 or 5 bits).
bool reads_windows(const Expr& read, const te::Compute& sum, const std::vector<size_t>& lines,
                   const std::vector<te::Axis>& steps) {
  constexpr int64_t kMostStep = 8;
  const size_t rank = read->args.size(), spatial = rank - 2;
  if (rank < 3 || lines.size() > rank - 1 || lines.size() < spatial) return false;
  const bool one_image = lines.size() == spatial;
  const Expr& image = read->args.front();
  if (one_image ? !image.is_int(0) : !image.is_var() || image->name != sum.axes[lines[0]].name) return false;
  const int64_t corners = rank == 3 ? int64_t{1} << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  for (size_t d = 0; d < spatial; ++d) {
    const std::optional<LinearForm> form = as_linear(read->args[d + 1]);
    if (!form || form->terms.size() > 2 || form->constant > 0 || form->constant < -corners) return false;
    int64_t step = 0, reach = 0;
    for (const auto& [name, coefficient] : form->terms) {
      const auto in_window = std::ranges::find(steps, name, &te::Axis::name);
      if (in_window != steps.end()) reach = (in_window->extent - 1) * coefficient;
      if (name == sum.axes[lines[one_image ? d : d + 1]].name) step = coefficient;
    }
    const bool known = static_cast<size_t>((step != 0) + (reach != 0)) == form->terms.size();
    if (!known || step < 1 || step > kMostStep || reach < 0 || reach >= corners) return false;
  }
  return true;
}

// Whether the copy engine can bring an operand's blocks of steps: boxes of a tensor, or windows of images, whose lines
// are aligned, and more than one of them. Lines of several axes of steps are whole blocks of the last one.
bool goes_in_boxes(const te::Program& program, const Product& p, const te::Compute& sum, bool left) {
  constexpr int64_t kLineAlignment = 16, kLineBytes = 128;
  constexpr size_t kLeastRank = 2, kMostRank = 5;
  const Expr& read = left ? p.match.a : p.match.b;
  const size_t rank = read->args.size();
  const bool is_tensor = std::ranges::find(program.inputs, read->name, &te::Tensor::name) != program.inputs.end();
  if (!is_tensor || rank < kLeastRank || rank > kMostRank || p.batch.size() > 1) return false;
  const te::Axis& step = p.steps.back();
  const int64_t bytes = step.extent * read.type().bytes();
  int64_t all_bytes = bytes;
  for (size_t i = 0; i + 1 < p.steps.size(); ++i) all_bytes *= p.steps[i].extent;
  const bool steps_last = read->args.back().is_var() && read->args.back()->name == step.name;
  if (!steps_last || all_bytes <= kLineBytes) return false;
  if (bytes % (p.steps.size() > 1 ? kLineBytes : kLineAlignment) != 0) return false;
  const std::vector<size_t>& lines = left ? p.rows : p.columns;
  if (lines.size() == 1 && std::ranges::all_of(read->args, [](const Expr& index) { return index.is_var(); }))
    return true;
  return bytes % kLineBytes == 0 && reads_windows(read, sum, lines, p.steps);
}

// How many columns beside each other a thread may hold: as many as one access of the output moves, if B's lines are
// read one by one, in any order. Lines that come in boxes must lie in that order: those of a constant whose columns
// divide.
int64_t neighbours_of(const te::Program& program, const Product& p, const te::Compute& sum, bool boxes,
                      const GroupTask& task, const TargetInfo& target) {
  constexpr int64_t kPair = 2, kMost = 8, kPairs = 4;
  if (p.columns.size() != 1 || !access_of(p, sum, false, target).by_steps) return kPair;
  if (boxes && !task.constants.contains(p.match.b->name)) return kPair;
  const int64_t access = target.vector_bytes / program.tensor(p.output).type.bytes();
  const int64_t columns = extent_at(sum, p.columns);
  return std::max(kPair, std::gcd(std::min(kMost, access), boxes ? columns / kPairs : columns));
}

// What a program stores for each of its `sums`, and reads of tensors as large.
int64_t result_bytes(const te::Program& program, int64_t sums) {
  int64_t bytes = 0;
  const auto add = [&](const te::Tensor& t) {
    if (num_elements(t.shape) == sums) bytes += t.type.bytes();
  };
  for (const te::Tensor& t : program.inputs) add(t);
  for (const std::string& name : program.outputs) add(program.tensor(name));
  return bytes;
}

// A product whose constant operands have their layouts.
struct StoredProduct {
  te::Program program;
  Product product;
  std::map<std::string, Layout> layouts;
};

BlockProblem problem_of(const StoredProduct& in, const GroupTask& task, const TargetInfo& target) {
  const te::Program& program = in.program;
  const Product& p = in.product;
  const te::Compute& sum = *program.find_compute(p.sum);
  BlockProblem problem;
  problem.batch = extent_at(sum, p.batch);
  problem.rows = extent_at(sum, p.rows);
  problem.columns = extent_at(sum, p.columns);
  for (const te::Axis& r : p.steps) problem.steps *= r.extent;
  problem.bytes = p.match.a.type().bytes();
  problem.is_half =
      p.match.a.type().is_half() && p.match.a.type() == p.match.b.type() && sum.outputs[0].type == DataType::f32();
  problem.result_bytes = result_bytes(program, extent_at(sum, p.batch) * problem.rows * problem.columns);
  problem.boxes =
      has_feature(target, "tma") && goes_in_boxes(program, p, sum, true) && goes_in_boxes(program, p, sum, false);
  problem.neighbours = neighbours_of(program, p, sum, problem.boxes, task, target);
  return problem;
}

StoredProduct stored(const te::Program& program, const std::string& sum, std::map<std::string, Layout> layouts) {
  StoredProduct out{layouts.empty() ? program : te::apply_layouts(program, layouts), {}, std::move(layouts)};
  Result<Product> product = product_of(out.program, *out.program.find_compute(sum));
  TW_CHECK(product.ok(), "the product of {} is gone with the layout of its operand", program.name);
  out.product = std::move(product).value();
  return out;
}

// With the columns' operand, if it is a constant, in the order in which the instructions of `tile` want its lines.
StoredProduct stored_for(const BlockTile& tile, const StoredProduct& in, const te::Program& program,
                         const GroupTask& task) {
  const te::Compute& sum = *in.program.find_compute(in.product.sum);
  const Expr& read = in.product.match.b;
  const int64_t columns = extent_at(sum, in.product.columns);
  const bool whole = columns % (4 * tile.columns.back().extent) == 0;
  const int dim = schedule::dim_of_axis(read, sum.axes[in.product.columns.back()].name);
  if (!task.constants.contains(read->name) || !whole || dim < 0) return in;
  std::map<std::string, Layout> layouts = in.layouts;
  const Layout dealt = dealt_out(tile, dim, read->args.size(), columns);
  for (const LayoutPrimitive& p : dealt.primitives()) layouts[read->name] = layouts[read->name].then(p);
  return stored(program, in.product.sum, std::move(layouts));
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
  const StoredProduct in_order = stored(program, name, constant_layouts(*product, *found, task));
  const BlockProblem problem = problem_of(in_order, task, target);
  Candidates candidates;
  for (const BlockTile& tile : block_tiles(problem, target)) {
    const StoredProduct dealt = stored_for(tile, in_order, program, task);
    Construction candidate = base;
    candidate.constant_layouts = dealt.layouts;
    BlockContraction(dealt.program, dealt.product, tile, target, candidate).run();
    candidate.predicted_ns = predicted_cycles(tile, problem, target) / kCyclesPerNs;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tw::tune
