#include "construct/gpu/product.h"

#include <numeric>

#include "construct/column_sums.h"
#include "expr/affine.h"
#include "expr/analyzer.h"
#include "runtime/format/manifest.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

constexpr int64_t kMinLines = 8;       // columns, or rows of f32, below which operands are not shared
constexpr int64_t kMinHalfRows = 2;    // rows of 16 bits: those of an instruction are sixteen, whatever there is
constexpr int64_t kPartMultiple = 64;  // k of a part is a multiple of it: no k-block crosses parts
constexpr int64_t kMinPartK = 128;     // min k of a split-K part
constexpr int64_t kMaxSplitK = 128;
constexpr int64_t kBlockSteps = 64;                     // of 16 bits: k-blocks of tiles have as many, or parts of them
constexpr int64_t kLineBytes = 128, kSectorBytes = 32;  // bytes: swizzled line of a TMA box; DRAM sector
constexpr int64_t kMaxBoxLines = 256, kMaxWindowLines = 1024;  // lines of one TMA copy

// Whether a factor is the same number everywhere: no layout leaves it a read.
bool multiplies_padding(const te::Compute& sum) {
  Analyzer ranges;
  for (const auto* axes : {&sum.axes, &sum.reduce_axes}) {
    for (const te::Axis& axis : *axes) ranges.bind(axis.name, 0, axis.extent);
  }
  const Expr term = te::summed_term(sum.body[0]);
  return std::ranges::any_of(term->args, [&](const Expr& e) { return ranges.simplify(e).op() == Op::kFloatImm; });
}

// Whether tiles of several products of the batch pay: their columns fill no tile, and their steps are beside each other
// in the left operand's lines, as channels of groups are.
bool is_packed(const MatrixProduct& p, const te::Compute& sum) {
  constexpr int64_t kMaxColumns = 32;
  const int64_t columns = extent_at(sum, p.columns), batch = extent_at(sum, p.batch);
  const Expr& read = p.match.a;
  if (p.batch.empty() || !read.type().is_half()) return false;
  const auto along = [&](const std::string& axis) { return coefficient_of(read->args.back(), axis).value_or(0); };
  const bool beside = along(p.steps.back().name) == 1 && along(sum.axes[p.batch.back()].name) > 0;
  return beside && batch > 1 && columns <= kMaxColumns && batch * columns >= kMinLines;
}

// Whether zeros may fill up `has` lines or steps of a constant to `all`.
bool is_little_more(int64_t all, int64_t has) { return 8 * all <= 9 * has; }

// Behind this many steps of a box's lines, that each begins where a line of memory does, or at least a sector: a box
// reads whole sectors.
int64_t zeros_behind(int64_t steps, DataType type) {
  for (const int64_t bytes : {kLineBytes, kSectorBytes}) {
    const int64_t all = round_up(steps, bytes / type.bytes());
    if (is_little_more(all, steps)) return all - steps;
  }
  return 0;
}

// Whether the conditions around `read` say no more than that its indices are in the tensor: zeros beyond its edges, not
// beyond those of a part of it.
bool pads_to_edges(const te::Compute& sum, const Expr& read, const Shape& shape) {
  const Analyzer ranges;
  bool all = true;
  visit(sum.body[0], [&](const Expr& e) {
    if (e.op() != Op::kSelect) return;
    bool around = false;
    visit(e.arg(1), [&](const Expr& inner) { around = around || inner.same(read); });
    all = all && (!around || all_inside(e.arg(0), read->args, shape, ranges));
  });
  return all;
}

// Whether `read` is [image, spatial.., channel], or that of one image, with the lines' axes in this order, each spatial
// index a window's: a multiple of its axis, and of axes that no line is of, less a constant; within what TMA can say
// (PTX ISA, "im2col mode": corners and places of 16, 8 or 5 bits).
bool reads_windows(const MatrixProduct& p, const te::Compute& sum, const Expr& read, const Shape& shape,
                   const std::vector<size_t>& lines) {
  using format::TensorMap, format::Windows;
  const std::vector<Expr>& indices = read->args;
  const bool images = indices[0].is_var() && indices[0]->name == sum.axes[lines[0]].name;
  const size_t before = images || indices[0].is_int(0) ? 1 : 0, spatial = indices.size() - 1 - before;
  const size_t rank = spatial + 2, first = images ? 1 : 0;  // of the lines' axes
  if (rank < Windows::kMinRank || rank > TensorMap::kMaxRank || lines.size() != first + spatial) return false;
  const int64_t corners = Windows::max_corner(rank);
  std::vector<te::Axis> filter_positions = p.steps;
  if (p.filter_positions) filter_positions.push_back(*p.filter_positions);
  for (const size_t i : p.batch) filter_positions.push_back(sum.axes[i]);
  for (size_t d = 0; d < spatial; ++d) {
    const std::optional<LinearForm> form = as_linear(indices[d + before]);
    if (!form || form->constant > 0 || form->constant < -corners) return false;
    int64_t step = 0, halo = 0, beyond = 0;  // the last filter positions read beyond the last line
    for (const auto& [name, coefficient] : form->terms) {
      const auto position = std::ranges::find(filter_positions, name, &te::Axis::name);
      const bool is_line = name == sum.axes[lines[d + first]].name;
      if (coefficient < 1 || (position == filter_positions.end() && !is_line)) return false;
      (is_line ? step : halo) += is_line ? coefficient : (position->extent - 1) * coefficient;
      if (p.filter_positions && name == p.filter_positions->name) beyond = (position->extent - 1) * coefficient;
    }
    if (step < 1 || step > Windows::kMaxStep || halo >= corners) return false;
    const int64_t extent = shape[d + before];
    const int64_t last = (sum.axes[lines[d + first]].extent - 1) * step + 1 + beyond + form->constant - extent;
    if (last < -corners || last >= corners) return false;
  }
  return pads_to_edges(sum, read, shape);
}

// Whether each line of `read` is one index of it, which no other axis moves.
bool reads_lines(const te::Compute& sum, const Expr& read, const std::vector<size_t>& lines) {
  const std::string& line = sum.axes[lines[0]].name;
  return lines.size() == 1 && std::all_of(read->args.begin(), read->args.end() - 1, [&](const Expr& index) {
           return index.is_var() || (as_linear(index) && !uses_var(index, line));
         });
}

// Whether steps of an operand of 16 bits lie apart and its lines beside each other.
bool lies_beside(const MatrixProduct& p, const te::Compute& sum, bool left, const TargetInfo& target) {
  const Expr& read = left ? p.match.a : p.match.b;
  const te::Axis& line = sum.axes[(left ? p.rows : p.columns).back()];
  return read.type().is_half() && !p.filter_positions && !access_of(read, p.steps.back(), line, target).by_steps;
}

// Whether TMA can bring an operand's k-blocks: boxes of a tensor, or windows of images, whose lines
// are aligned, and a whole one of them. Steps that end before the tensor's lines do, those of parts and of one of
// several axes, end with a block.
bool is_tma_eligible(const StoredProduct& in, const te::Compute& sum, bool left, const TargetInfo& target) {
  constexpr int64_t kLineAlignment = 16;
  constexpr size_t kMinRank = 2;
  const MatrixProduct& p = in.product;
  const Expr& read = left ? p.match.a : p.match.b;
  const size_t rank = read->args.size();
  const auto tensor = std::ranges::find(in.program.inputs, read->name, &te::Tensor::name);
  if (tensor == in.program.inputs.end() || rank < kMinRank || rank > format::TensorMap::kMaxRank) return false;
  if (p.batch.size() > (in.split_k.count > 1 ? 2 : 1)) return false;
  const te::Axis& step = p.steps.back();
  const std::vector<size_t>& lines = left ? p.rows : p.columns;
  if (lies_beside(p, sum, left, target))
    return p.steps.size() == 1 && lines.size() == 1 &&
           is_read_in_boxes(in.program, read, sum.axes[lines[0]], step, step.extent, kBlockSteps);
  const Expr& last = read->args.back();
  const bool whole_lines =
      last.is_var() && last->name == step.name && p.steps.size() == 1 && tensor->shape.back() == step.extent;
  const int64_t bytes = read.type().bytes();
  const bool whole_blocks = step.extent % (kLineBytes / bytes) == 0 && coefficient_of(last, step.name) == 1;
  if (!whole_lines && !whole_blocks) return false;
  const int64_t steps = te::num_points(p.steps);
  if (tensor->shape.back() * bytes % kLineAlignment != 0 || steps * bytes < kLineBytes) return false;
  return reads_lines(sum, read, lines) || (whole_blocks && reads_windows(p, sum, read, tensor->shape, lines));
}

// Whether `axis` goes along all of a dim of the tensor that `read` reads.
bool reads_all_along(const te::Program& program, const Expr& read, const te::Axis& axis) {
  const int dim = te::dim_of_axis(read, axis.name);
  return dim >= 0 && program.tensor(read->name).shape[dim] == axis.extent;
}

// How many columns beside each other a thread may hold: as many as one access of the output moves, if B's lines are
// read one by one, in any order. Lines that come by TMA must lie in that order: those of a constant, with few zeros up
// to whole blocks of interleaved columns.
int64_t neighbours_of(const te::Program& program, const MatrixProduct& p, const te::Compute& sum, bool tma,
                      const GroupTask& task, const TargetInfo& target) {
  constexpr int64_t kPair = 2, kMax = 8, kPairs = 4;
  const te::Axis& column = sum.axes[p.columns.back()];
  if (p.columns.size() != 1 || !access_of(p.match.b, p.steps.back(), column, target).by_steps) return kPair;
  int64_t widest = 1;
  for (const te::Tensor& t : program.find_compute(p.output)->outputs)
    widest = std::max<int64_t>(widest, t.type.bytes());
  const int64_t access = target.vector_bytes / widest;
  int64_t neighbours = std::max(kPair, std::gcd(std::min(kMax, access), column.extent));
  if (!tma) return neighbours;
  if (!task.kept.contains(p.match.b->name) || !reads_all_along(program, p.match.b, column)) return kPair;
  while (neighbours > kPair && !is_little_more(round_up(column.extent, kPairs * neighbours), column.extent))
    neighbours /= 2;
  return neighbours;
}

// What a program stores for each of its `sums`, and reads of tensors as large beside the operands.
int64_t result_bytes(const te::Program& program, const MatrixProduct& p, int64_t sums) {
  int64_t bytes = 0;
  const auto add = [&](const te::Tensor& t) {
    if (num_elements(t.shape) == sums) bytes += t.type.bytes();
  };
  for (const te::Tensor& t : program.inputs) {
    if (t.name != p.match.a->name && t.name != p.match.b->name) add(t);
  }
  for (const std::string& name : program.outputs) add(program.tensor(name));
  return bytes;
}

// By how many rows of its last axis the left operand moves from one filter position of `r` to the next; 0: otherwise
// than along that axis.
int64_t position_distance(const MatrixProduct& p, const te::Compute& sum, const te::Axis& r) {
  return te::position_distance(p.match.a, sum.axes[p.rows.back()].name, r.name);
}

void set_filter_positions(MatrixProduct& p, const te::Axis& filter_positions) {
  std::erase_if(p.steps, [&](const te::Axis& r) { return r.name == filter_positions.name; });
  p.filter_positions = filter_positions;
}

}  // namespace

int64_t extent_at(const te::Compute& c, const std::vector<size_t>& places) {
  int64_t all = 1;
  for (const size_t i : places) all *= c.axes[i].extent;
  return all;
}

Result<MatrixProduct> product_of(const te::Program& program, const te::Compute& sum, int64_t min_rows) {
  const Result<schedule::Contraction> match = schedule::match_contraction(sum);
  if (!match.ok()) return Reason{match.reason()};
  if (match->words || !sum.outputs[0].type.is_float()) return declined("{} multiplies words", sum.name());
  const Result<std::string> output = schedule::epilogue_output(program, sum);
  if (!output.ok()) return Reason{output.reason()};
  if (multiplies_padding(sum)) return declined("{} multiplies nothing but padding", sum.name());
  const Expr term = te::summed_term(sum.body[0]);  // padding may ask for an axis that its read does not
  size_t b = 0;
  visit(term.arg(1), [&](const Expr& e) { b = e.same(match->b) ? 1 : b; });
  MatrixProduct p{sum.name(), *output, *match, {}, {}, {}, schedule::reduction_order(program, *match)};
  for (size_t i = 0; i < sum.axes.size(); ++i) {
    const bool in_a = uses_var(term.arg(1 - b), sum.axes[i].name);
    const bool in_b = uses_var(term.arg(b), sum.axes[i].name);
    // Of an axis that decides which products are summed, as phases are, each place is a product by itself.
    const bool decides = match->condition && uses_var(match->condition, sum.axes[i].name);
    (decides || (in_a && in_b) ? p.batch : in_b ? p.columns : p.rows).push_back(i);
  }
  if (p.rows.empty() || p.columns.empty()) return declined("{} has no rows or no columns of its own", sum.name());
  // Neighbouring rows lie beside each other where one of their axes does, whatever the output's order is: those of a
  // convolution's weight gradient are channels of the image at each position of the filter.
  const auto lies_beside = [&](size_t i) {
    return !p.match.a->args.empty() && coefficient_of(p.match.a->args.back(), sum.axes[i].name).value_or(0) == 1;
  };
  if (const auto found = std::ranges::find_if(p.rows, lies_beside); found != p.rows.end())
    std::rotate(found, found + 1, p.rows.end());
  p.packs = is_packed(p, sum);
  p.narrow = extent_at(sum, p.columns) < kMinLines;
  if (extent_at(sum, p.rows) < min_rows || (p.narrow && !p.packs))
    return declined("{} is no product of matrices but of vectors", sum.name());
  return p;
}

Result<MatrixProduct> product_of(const te::Program& program, const te::Compute& sum) {
  const Result<schedule::Contraction> match = schedule::match_contraction(sum);
  const bool half = match.ok() && match->a.type().is_half() && match->b.type().is_half();
  return product_of(program, sum, half ? kMinHalfRows : kMinLines);
}

std::map<std::string, Layout> constant_layouts(const MatrixProduct& p, const te::Compute& sum, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  for (const bool left : {true, false}) {
    const Expr& read = left ? p.match.a : p.match.b;
    if (!task.kept.contains(read->name)) continue;
    std::vector<int64_t> order;
    const auto add = [&](const te::Axis& axis) {
      const int d = te::dim_of_axis(read, axis.name);
      if (d >= 0) order.push_back(d);
    };
    for (const size_t i : p.batch) add(sum.axes[i]);
    if (p.filter_positions && !left) add(*p.filter_positions);
    for (const size_t i : left ? p.rows : p.columns) add(sum.axes[i]);
    for (const te::Axis& r : p.steps) add(r);
    const bool in_order = std::ranges::is_sorted(order);
    if (order.size() == read->args.size() && !in_order) layouts[read->name] = Layout().reorder(order);
  }
  return layouts;
}

bool is_read_in_boxes(const te::Program& program, const Expr& load, const te::Axis& fast, const te::Axis& slow,
                      int64_t slow_extent, int64_t slow_block) {
  constexpr int64_t kLineAlignment = 16;
  constexpr size_t kMinRank = 2;
  const auto tensor = std::ranges::find(program.inputs, load->name, &te::Tensor::name);
  const size_t rank = load->args.size();
  const int64_t bytes = load.type().bytes(), line = kLineBytes / bytes;
  if (tensor == program.inputs.end() || rank < kMinRank || rank > format::TensorMap::kMaxRank ||
      tensor->shape.back() * bytes % kLineAlignment != 0)
    return false;
  // Blocks are whole, or end where the tensor does: there are zeros behind it.
  const auto ends = [&](size_t d, int64_t elements, int64_t block) {
    const std::optional<LinearForm> form = as_linear(load.arg(d));
    return elements % block == 0 || (form && form->constant == 0 && tensor->shape[d] == elements);
  };
  const auto uses = [&](size_t d, const te::Axis& axis) { return uses_var(load.arg(d), axis.name); };
  if (coefficient_of(load.arg(rank - 1), fast.name) != 1 || !ends(rank - 1, fast.extent, line) || uses(rank - 1, slow))
    return false;
  size_t dims = 0;
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (uses(d, fast)) return false;
    if (!uses(d, slow)) continue;
    if (coefficient_of(load.arg(d), slow.name) != 1 || !ends(d, slow_extent, slow_block)) return false;
    ++dims;
  }
  return dims == 1;
}

OperandAccess access_of(const Expr& read, const te::Axis& step, const te::Axis& line, const TargetInfo& target) {
  const auto lanes_along = [&](const te::Axis& axis) {
    if (read->args.empty() || coefficient_of(read->args.back(), axis.name).value_or(0) != 1) return int64_t{0};
    int64_t lanes = target.vector_bytes / read.type().bytes();
    while (axis.extent % lanes != 0) lanes /= 2;
    return lanes;
  };
  const int64_t steps = lanes_along(step);
  const int64_t along = lanes_along(line);
  return along > steps ? OperandAccess{false, along} : OperandAccess{true, std::max<int64_t>(1, steps)};
}

Layout interleaved_columns(const ThreadBlockTile& tile, int dim, size_t rank, int64_t columns) {
  constexpr int64_t kPairs = 4;
  const int64_t together = tile.columns.back().extent / 2;
  if (!tile.by_matrix() || together == 1) return {};
  std::vector<int64_t> order = sequence(rank + 3);
  // [block, pair, instruction, column of a pair] -> [block, instruction, pair, column of a pair]
  std::swap(order[static_cast<size_t>(dim) + 1], order[static_cast<size_t>(dim) + 2]);
  return Layout()
      .split(dim, {columns / (2 * kPairs * together), kPairs, together, 2})
      .reorder(std::move(order))
      .fuse(dim, kPairs);
}

std::string split_sum(const std::string& sum, StoredProduct& out) {
  const std::string partial = cut_sum(out.split, *out.program.find_compute(sum), out.split_k.axis, out.split_k.count);
  out.rest = schedule::rewritten(out.program, out.split);
  const te::Compute sums = *out.rest.find_compute(partial);
  const te::Program all = out.rest;
  std::erase_if(out.rest.computes,
                [&](const te::Compute& c) { return c.name() == partial || te::depends_on(all, sums, c.name()); });
  out.rest.inputs.push_back(sums.outputs[0]);
  std::erase_if(out.program.inputs, [&](const te::Tensor& t) { return te::count_reads(sums, t.name) == 0; });
  out.program.computes = {sums};
  out.program.outputs = {partial};
  return partial;
}

std::optional<StoredProduct> with_filter_positions(const StoredProduct& whole, const te::Program& program,
                                                   const GroupTask& task, const TargetInfo& target) {
  const te::Compute& sum = *program.find_compute(whole.product.sum);
  const GemmProblem problem = problem_of(whole, task, target);
  const bool by_groups = problem.tma && problem.by_matrix && has_feature(target, "wgmma");
  if (!task.kept.contains(whole.product.match.b->name) || !by_groups) return std::nullopt;
  const Result<MatrixProduct> product = product_of(program, sum);
  for (const te::Axis& r : product->steps) {
    if (r.extent == 1 || r.name == product->steps.back().name || position_distance(*product, sum, r) == 0) continue;
    MatrixProduct shared = *product;
    set_filter_positions(shared, r);
    StoredProduct out = stored(program, sum.name(), constant_layouts(shared, sum, task), {});
    set_filter_positions(out.product, r);
    if (problem_of(out, task, target).tma) return out;
  }
  return std::nullopt;
}

GemmProblem problem_of(const StoredProduct& in, const GroupTask& task, const TargetInfo& target) {
  const te::Program& program = in.program;
  const MatrixProduct& p = in.product;
  const te::Compute& sum = *program.find_compute(p.sum);
  GemmProblem problem;
  problem.batch = extent_at(sum, p.batch);
  problem.m = extent_at(sum, p.rows);
  problem.n = extent_at(sum, p.columns);
  if (p.filter_positions) {
    const int64_t pixels = sum.axes[p.rows.back()].extent;
    problem.filter_positions = p.filter_positions->extent;
    problem.halo = (problem.filter_positions - 1) * position_distance(p, sum, *p.filter_positions);
    problem.max_lines = problem.m == pixels ? kMaxBoxLines : kMaxWindowLines;
    problem.pixels = pixels + problem.halo;
    problem.m = problem.m / pixels * problem.pixels;
  }
  problem.k = te::num_points(p.steps);
  problem.bytes = p.match.a.type().bytes();
  const DataType type = p.match.a.type();
  problem.by_matrix =
      (type.is_half() || p.match.tf32) && type == p.match.b.type() && sum.outputs[0].type == DataType::f32();
  const int64_t sums = num_elements(sum.outputs[0].shape);
  problem.result_bytes = result_bytes(program, p, sums);
  const DataType result = program.tensor(p.output).type;
  const bool is_odd = problem.n % 2 == 1 && problem.n > 1 && result.is_half();
  const bool one_output =
      program.find_compute(p.output)->outputs.size() == 1;  // of those that are stored in shared memory
  if (is_odd && one_output && p.rows.size() == 1 && p.columns.size() == 1) problem.odd_bytes = result.bytes();
  problem.split_k = in.split_k.count;
  problem.packs = p.packs && problem.by_matrix && problem.split_k == 1 && !p.filter_positions;
  if (problem.split_k > 1) problem.added_bytes = result_bytes(in.rest, p, sums / problem.split_k);
  for (const Expr* read : {&p.match.a, &p.match.b}) {
    const te::Tensor& operand = program.tensor((*read)->name);
    problem.operand_bytes += num_elements(operand.shape) * operand.type.bytes();
  }
  problem.tma =
      has_feature(target, "tma") && is_tma_eligible(in, sum, true, target) && is_tma_eligible(in, sum, false, target);
  problem.rows_beside = lies_beside(p, sum, true, target);
  problem.columns_beside = lies_beside(p, sum, false, target);
  problem.neighbours = neighbours_of(program, p, sum, problem.tma, task, target);
  return problem;
}

StoredProduct stored(const te::Program& program, const std::string& sum, std::map<std::string, Layout> layouts,
                     const SplitK& split_k) {
  StoredProduct out{
      layouts.empty() ? program : te::apply_layouts(program, layouts), {}, std::move(layouts), split_k, {}, {}};
  const std::string name = split_k.count > 1 ? split_sum(sum, out) : sum;
  Result<MatrixProduct> product = product_of(out.program, *out.program.find_compute(name));
  TW_CHECK(product.ok(), "the product of {} is gone with the layout of its operand", program.name);
  out.product = std::move(product).value();
  return out;
}

StoredProduct stored_for(const ThreadBlockTile& tile, const StoredProduct& in, const te::Program& program,
                         const GroupTask& task) {
  const te::Compute& sum = *in.program.find_compute(in.product.sum);
  const Expr& read = in.product.match.b;
  const te::Axis &column = sum.axes[in.product.columns.back()], &step = in.product.steps.back();
  const int dim = te::dim_of_axis(read, column.name), along = te::dim_of_axis(read, step.name);
  if (!task.kept.contains(read->name) || dim < 0) return in;
  // Zeros lie behind a tensor: of one that the product reads in part, behind what it does not read.
  const bool all_steps = in.product.steps.size() == 1 && reads_all_along(in.program, read, step);
  const int64_t zeros = tile.tma && all_steps ? zeros_behind(step.extent, read.type()) : 0;
  const int64_t all = round_up(column.extent, 4 * tile.columns.back().extent), more = all - column.extent;
  Layout interleaved;
  if (reads_all_along(in.program, read, column) && (more == 0 || tile.tma))
    interleaved = interleaved_columns(tile, dim, read->args.size(), all);
  if (zeros == 0 && interleaved.is_identity()) return in;
  std::map<std::string, Layout> layouts = in.layouts;
  Layout& layout = layouts[read->name];
  if (zeros > 0) layout = layout.pad(along, 0, zeros);
  if (more > 0 && !interleaved.is_identity()) layout = layout.pad(dim, 0, more);
  for (const LayoutPrimitive& p : interleaved.primitives()) layout = layout.then(p);
  StoredProduct out = stored(program, schedule::find_contraction(program)->name(), std::move(layouts), in.split_k);
  out.product.zeros = zeros;
  if (in.product.filter_positions) set_filter_positions(out.product, *in.product.filter_positions);
  return out;
}

std::vector<SplitK> split_ks_of(const StoredProduct& whole, const GemmProblem& problem, const TargetInfo& target) {
  constexpr int64_t kLargeTile = 128, kMaxTilesPerSm = 8;
  const int64_t tiles = problem.batch * ceil_div(problem.m, kLargeTile) * ceil_div(problem.n, kLargeTile);
  const int64_t max =
      std::min({kMaxSplitK, problem.k / kMinPartK, kMaxTilesPerSm * std::max(1, target.compute_units) / tiles});
  std::vector<SplitK> all;
  if (whole.program.find_compute(whole.product.match.a->name) != nullptr) return all;  // a computed operand
  for (const te::Axis& r : whole.product.steps) {
    const int64_t whole_steps = r.name == whole.product.steps.back().name ? kPartMultiple : 1;
    for (int64_t count = 2; count <= std::min(max, r.extent); ++count) {
      if (r.extent % (count * whole_steps) == 0) all.push_back({r.name, count});
    }
  }
  return all;
}

}  // namespace tw::construct
