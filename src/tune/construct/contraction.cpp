// Sums of products with an element-wise epilogue.
//
// The output stage is cut into tiles of rows x columns. Inside one tile the accumulators live in registers: the sum is
// attached to the tile, its rows unrolled, its columns vectors, its innermost reduction unrolled by four. B is stored
// in panels [column block][reduction..][columns of a block], so that a step reads one contiguous line after the other:
// constants are stored so at compile time, other operands are copied first.
#include "schedule/contraction.h"

#include <algorithm>

#include "expr/analyzer.h"
#include "support/math.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/epilogue.h"
#include "tune/construct/tile.h"

namespace tw::tune {
namespace {

using schedule::Contraction;
using schedule::Schedule;

constexpr int64_t kReductionUnroll = 4;   // more does not fit the decoded-instruction cache, less shows loop overhead
constexpr int64_t kPackMinimumRows = 16;  // rows that must reuse a packed B before the copy pays

// What was found out about a group before its schedule is written.
struct Plan {
  te::Program program;  // after inlining
  Contraction match;
  std::string accumulator;  // stage that sums
  std::string output;       // stage that owns the tile
  RegisterTile tile;
  int lanes = 1;
  bool b_in_panels = false;
  int64_t panel() const { return tile.vectors * lanes; }
};

const te::Compute* find_contraction(const te::Program& program) {
  for (const te::Compute& c : program.computes) {
    if (schedule::match_contraction(c).ok()) return &c;
  }
  return nullptr;
}

// Whether an expression holds a select: a guarded read, as in padding.
bool has_select(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || x.op() == Op::kSelect; });
  return found;
}

// Coefficient of `axis` in the row-major element offset of `read` in units of bytes; 0 when it is not linear.
int64_t stride_bytes(const te::Program& program, const Expr& read, const std::string& axis) {
  const te::Tensor& tensor = program.tensor(read->name);
  const Shape strides = row_major_strides(tensor.shape);
  int64_t stride = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    const auto linear = as_linear(read.arg(d));
    if (!linear) continue;
    for (const auto& [name, coefficient] : linear->terms) stride += name == axis ? coefficient * strides[d] : 0;
  }
  return stride * tensor.type.bytes();
}

RegisterTile tile_of(const Plan& plan, const TargetInfo& target) {
  const std::vector<te::Axis>& rows = plan.match.rows;
  TileProblem problem;
  problem.columns = plan.match.column.extent;
  problem.lanes = plan.lanes;
  problem.a_is_vector = plan.match.a_uses_column;
  if (!rows.empty()) {
    problem.inner_rows = rows.back().extent;
    problem.row_stride = stride_bytes(plan.program, plan.match.a, rows.back().name);
  }
  if (rows.size() > 1) problem.outer_rows = rows[rows.size() - 2].extent;
  return choose_tile(problem, target);
}

// Reduction axes from the outermost to the innermost loop: in the order in which A is stored. (The channel axis comes
// first in a convolution's definition, and is contiguous in channels-last storage.)
std::vector<std::string> reduction_order(const Plan& plan) {
  std::vector<std::string> loops = axis_names(plan.match.compute->reduce_axes);
  const auto stride = [&](const std::string& r) { return stride_bytes(plan.program, plan.match.a, r); };
  std::stable_sort(loops.begin(), loops.end(),
                   [&](const std::string& x, const std::string& y) { return stride(x) > stride(y); });
  return loops;
}

// The panel layout of B: batch dims, column block, reduction dims in loop order, columns of the block.
Result<Layout> panel_layout(const Plan& plan) {
  const Expr& b = plan.match.b;
  const Shape& shape = plan.program.tensor(b->name).shape;
  const int column = schedule::dim_of_axis(b, plan.match.column.name);
  if (column < 0) return declined("the columns of {} are not one of its dimensions", b->name);
  const int64_t panel = plan.panel();
  const int64_t blocks = ceil_div(shape[column], panel);
  Layout layout;
  if (blocks * panel != shape[column]) layout = layout.pad(column, 0, blocks * panel - shape[column]);
  layout = layout.split(column, {blocks, panel});
  const auto shifted = [&](int d) { return static_cast<int64_t>(d < column ? d : d + 1); };
  std::vector<int64_t> order;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::any_of(plan.match.compute->reduce_axes.begin(), plan.match.compute->reduce_axes.end(),
                                     [&](const te::Axis& r) { return uses_var(b.arg(d), r.name); });
    if (static_cast<int>(d) != column && !reduced) order.push_back(shifted(static_cast<int>(d)));
  }
  order.push_back(column);
  for (const std::string& r : reduction_order(plan)) {
    const int d = schedule::dim_of_axis(b, r);
    if (d < 0) return declined("reduction axis {} is not a dimension of {}", r, b->name);
    order.push_back(shifted(d));
  }
  order.push_back(column + 1);
  if (order.size() != shape.size() + 1)
    return declined("{} has dimensions that are neither batch, column nor reduction", b->name);
  return layout.reorder(order);
}

int64_t row_count(const Contraction& match) {
  int64_t rows = 1;
  for (const te::Axis& axis : match.rows) rows *= axis.extent;
  return rows;
}

// The stage that cache_read makes of `source` under `layout`: its name, type and loops.
te::Compute packed_copy(const te::Tensor& source, const Layout& layout) {
  te::Compute copy;
  copy.outputs = {{source.name + ".cache", source.type, layout.storage_shape(source.shape)}};
  for (size_t d = 0; d < copy.outputs[0].shape.size(); ++d)
    copy.axes.push_back({fmt::format("i{}", d), copy.outputs[0].shape[d]});
  return copy;
}

// Stores B in panels, or copies it there, or leaves it.
void place_b(Plan& plan, Construction& out, const GroupTask& task, const TargetInfo& target) {
  const std::string b = plan.match.b->name;
  const Result<Layout> layout = panel_layout(plan);
  if (!layout.ok()) return;
  const bool constant = task.constants.count(b) != 0 && te::count_reads(plan.program, b) == 1;
  if (!constant && row_count(plan.match) < kPackMinimumRows) return;
  if (constant) {
    out.constant_layouts[b] = *layout;
  } else {
    out.schedule.cache_read(b, {plan.match.compute->name()}, *layout);
    schedule_elementwise(out.schedule, packed_copy(plan.program.tensor(b), *layout), target);
  }
  plan.b_in_panels = true;
}

// Cuts the output into tiles and makes the tiles its parallel loops. Returns the name of the last tile loop.
std::string schedule_output(const Plan& plan, Schedule& s) {
  const std::string& out = plan.output;
  const std::string column = plan.match.column.name;
  s.split(out, column, {plan.tile.vectors, plan.lanes});
  std::vector<std::string> tiles = axis_names(plan.match.batch);
  tiles.push_back(column + ".0");
  std::vector<std::string> points;
  const std::vector<std::string> rows = axis_names(plan.match.rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool innermost = i + 1 == rows.size();
    const bool tiled = innermost || i + 2 == rows.size();
    if (!tiled) {
      tiles.push_back(rows[i]);
      continue;
    }
    s.split(out, rows[i], {innermost ? plan.tile.inner : plan.tile.outer});
    tiles.push_back(rows[i] + ".0");
    points.push_back(rows[i] + ".1");
  }
  std::vector<std::string> order = tiles;
  order.insert(order.end(), points.begin(), points.end());
  order.push_back(column + ".1");
  order.push_back(column + ".2");
  s.reorder(out, order);
  for (const std::string& point : points) s.unroll(out, point);
  s.unroll(out, column + ".1");
  s.vectorize(out, column + ".2");
  s.parallel(out, tiles);
  return tiles.back();
}

// The reduction loops, with the innermost one cut for unrolling.
std::vector<std::string> split_reductions(const Plan& plan, Schedule& s) {
  std::vector<std::string> loops = reduction_order(plan);
  if (loops.empty()) return loops;
  const std::string inner = loops.back();
  const auto axis = std::find_if(plan.match.compute->reduce_axes.begin(), plan.match.compute->reduce_axes.end(),
                                 [&](const te::Axis& r) { return r.name == inner; });
  const int64_t unroll = std::min(axis->extent, kReductionUnroll);
  s.split(plan.accumulator, inner, {unroll});
  s.unroll(plan.accumulator, inner + ".1");
  loops.back() = inner + ".0";
  loops.push_back(inner + ".1");
  return loops;
}

void schedule_accumulator(const Plan& plan, const std::string& tile_loop, Schedule& s) {
  const std::string& acc = plan.accumulator;
  const std::string column = plan.match.column.name;
  s.compute_at(acc, plan.output, tile_loop, loop::Scope::kRegister);
  s.split(acc, column, {plan.lanes});
  std::vector<std::string> order = axis_names(plan.match.batch);
  for (const std::string& r : split_reductions(plan, s)) order.push_back(r);
  for (const te::Axis& row : plan.match.rows) order.push_back(row.name);
  order.push_back(column + ".0");
  order.push_back(column + ".1");
  s.reorder(acc, order);
  for (const te::Axis& row : plan.match.rows) s.unroll(acc, row.name);
  s.unroll(acc, column + ".0");
  s.vectorize(acc, column + ".1");
  if (plan.match.compute->body[0].type().is_float()) s.tensorize(acc, order.front(), "fma_tile", {});
}

// An output without elements, or a sum of no terms: nothing to cut into tiles.
bool has_empty_axis(const te::Compute& c) {
  const auto empty = [](const te::Axis& axis) { return axis.extent == 0; };
  return std::ranges::any_of(c.axes, empty) || std::ranges::any_of(c.reduce_axes, empty);
}

}  // namespace

Result<Candidates> construct_contraction(const GroupTask& task, const TargetInfo& target) {
  const te::Compute* first = find_contraction(task.program);
  if (first == nullptr) return declined("no sum of products");
  const std::string name = first->name();
  Construction out;
  Plan plan;
  // Guarded copies (padding) before the sum stay: their guards must not reach the innermost loop.
  plan.program = inline_stages(out.schedule, task.program, [&](const te::Compute& c) {
    return !te::depends_on(task.program, c, name) && has_select(c.body[0]);
  });
  const te::Compute& sum = *plan.program.find_compute(name);
  auto match = schedule::match_contraction(sum);
  if (!match.ok()) return Reason{match.reason()};
  plan.match = *match;
  for (const te::Compute& c : plan.program.computes) {
    if (&c != &sum && schedule::match_contraction(c).ok()) return declined("{} is a second contraction", c.name());
  }
  if (has_empty_axis(sum)) return declined("{} has an axis of extent 0", name);
  const Result<std::string> output = epilogue_output(plan.program, sum);
  if (!output.ok()) return Reason{output.reason()};
  plan.output = *output;
  plan.accumulator = plan.output == name ? name + ".acc" : name;
  plan.lanes = std::min<int64_t>(target.lanes(sum.outputs[0].type), plan.match.column.extent);
  plan.tile = tile_of(plan, target);

  for (const te::Compute& c : plan.program.computes) {
    if (c.name() == name || te::depends_on(plan.program, c, name)) continue;
    c.is_reduction() ? schedule_reduction(out.schedule, c, target) : schedule_elementwise(out.schedule, c, target);
  }
  place_b(plan, out, task, target);
  if (plan.output == name) out.schedule.cache_write(name);
  const std::string tile_loop = schedule_output(plan, out.schedule);
  const std::string& column = plan.match.column.name;
  schedule_epilogue(plan.program, {name, plan.output, tile_loop, axis_names(plan.match.rows), column, plan.lanes},
                    out.schedule);
  schedule_accumulator(plan, tile_loop, out.schedule);
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
