#include "construct/cpu/contraction_operands.h"

#include "cost/calibrated.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Contraction;

constexpr int64_t kPackMinimumRows = 16;  // rows that must reuse a packed B before the copy pays

// The dimension of B whose blocks are stored one after the other: of the reduction that is blocked; or -1, also for the
// outermost reduction, which lies so as it is.
int blocked_dim(const ContractionProblem& problem, const ContractionTiling& tiling) {
  const size_t blocked = blocked_reduction(problem);
  if (tiling.reduction_blocks == 1 || blocked == 0) return -1;
  const te::Axis& axis = problem.reductions[blocked];
  const int d = te::dim_of_axis(problem.match.b, axis.name);
  const Shape& shape = problem.program.tensor(problem.match.b->name).shape;
  return d >= 0 && shape[d] == axis.extent && axis.extent % tiling.reduction_blocks == 0 ? d : -1;
}

// The panel layout of B: batch dims, column block, block of the reduction that is blocked, reduction dims in loop
// order, columns of the block.
Result<Layout> panel_layout(const ContractionProblem& problem, const ContractionTiling& tiling) {
  const Contraction& match = problem.match;
  const Expr& b = match.b;
  const Shape& shape = problem.program.tensor(b->name).shape;
  const int column = te::dim_of_axis(b, match.column.name);
  if (column < 0) return declined("the columns of {} are not one of its dimensions", b->name);
  const int64_t panel = tiling.tile.vectors * problem.lanes;
  const int64_t blocks = ceil_div(shape[column], panel);
  Layout layout;
  if (blocks * panel != shape[column]) layout = layout.pad(column, 0, blocks * panel - shape[column]);
  layout = layout.split(column, {blocks, panel});
  const int blocked = blocked_dim(problem, tiling);
  const auto shifted = [&](int d) { return d + (d > column ? 1 : 0) + (blocked >= 0 && d > blocked ? 1 : 0); };
  if (blocked >= 0)
    layout = layout.split(blocked + (blocked > column ? 1 : 0),
                          {tiling.reduction_blocks, shape[blocked] / tiling.reduction_blocks});
  std::vector<int64_t> order;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced =
        std::ranges::any_of(match.compute->reduce_axes, [&](const te::Axis& r) { return uses_var(b.arg(d), r.name); });
    if (static_cast<int>(d) != column && !reduced) order.push_back(shifted(static_cast<int>(d)));
  }
  order.push_back(shifted(column));
  if (blocked >= 0) order.push_back(shifted(blocked));
  for (const te::Axis& r : problem.reductions) {
    const int d = te::dim_of_axis(b, r.name);
    if (d < 0) return declined("reduction axis {} is not a dimension of {}", r.name, b->name);
    order.push_back(shifted(d) + (d == blocked ? 1 : 0));
  }
  order.push_back(shifted(column) + 1);
  if (order.size() != shape.size() + (blocked >= 0 ? 2 : 1))
    return declined("{} has dimensions that are neither batch, column nor reduction", b->name);
  return layout.reorder(order);
}

// Which of the reads of its tensor B is: none to tell where it is the only one. What is computed inside a group may be
// A, too; inputs never are (te/operands.h).
std::vector<int64_t> read_of_b(const te::Compute& sum, const Expr& b) {
  const std::vector<Expr> reads = te::distinct_reads(sum, b->name);
  if (reads.size() == 1) return {};
  return {index_where(reads, [&](const Expr& read) { return equal(read, b); }) + 1};
}

}  // namespace

te::Compute packed_copy(const te::Tensor& source, const std::string& name, const Layout& layout) {
  te::Compute copy;
  copy.outputs = {{name, source.type, layout.storage_shape(source.shape)}};
  copy.axes = te::make_axes('i', copy.outputs[0].shape);
  return copy;
}

Panels place_b(const ContractionProblem& problem, const ContractionTiling& tiling, const GroupTask& task,
               const TargetInfo& target, Construction& out) {
  const std::string& b = problem.match.b->name;
  const int64_t line = line_elements(target, problem.match.b.type());
  const Result<Layout> layout = panel_layout(problem, tiling);
  if (!layout.ok()) return {};
  const te::Tensor& tensor = problem.program.tensor(b);
  const bool streams =
      target.levels.size() > 2 && num_elements(tensor.shape) * tensor.type.bytes() >
                                      cost::kKeptShare * static_cast<double>(target.levels[1].capacity_bytes);
  const bool stored = task.kept.count(b) != 0 && te::count_reads(problem.program)[b] == 1;
  if (stored) {
    out.constant_layouts[b] = *layout;
    return {b, line, std::nullopt, false, streams};
  }
  if (te::num_points(problem.match.rows) < kPackMinimumRows) return {};
  const te::Compute& sum = *problem.match.compute;
  te::Compute copy = packed_copy(tensor, out.schedule.next_cache(b), *layout);
  out.schedule.cache_read(b, {sum.name()}, read_of_b(sum, problem.match.b)).layout(copy.name(), *layout);
  return {copy.name(), line, std::move(copy), false, streams};
}

}  // namespace tw::construct
