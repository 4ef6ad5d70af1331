// Sums of products with an element-wise epilogue.
//
// The output stage is cut into blocks and register tiles (contraction_tiles.h); inside a tile the accumulators live in
// registers (contraction_loops.h). B is stored in panels [column block][reduction..][columns of a block], so that a
// step reads one contiguous line after the other: constants are stored so at compile time, other operands are copied
// first.

#include <algorithm>

#include "construct/cpu/contraction_loops.h"
#include "construct/cpu/contraction_operands.h"
#include "construct/elementwise.h"
#include "cost/units.h"
#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

using schedule::Contraction;
using schedule::Schedule;

constexpr size_t kCandidates = 10;  // Roller's K

// How a copy is stored of which each batch index reads a part of the contiguous dimension (channels of one group, in a
// padded image): the parts one after the other, if they fill lines. Neighbouring pixels of one part are neighbours
// then, where before they shared few sets of the caches.
std::map<std::string, Layout> copy_layouts(const te::Program& program, const Contraction& match,
                                           const TargetInfo& target) {
  const te::Compute* copy = program.find_compute(match.a->name);
  if (copy == nullptr || copy->is_reduction() || copy->axes.empty() || target.levels.empty()) return {};
  const te::Tensor& stored = copy->outputs[0];
  const int last = static_cast<int>(stored.shape.size()) - 1;
  for (const te::Axis& batch : match.batch) {
    const int64_t part = coefficient_of(match.a.arg(last), batch.name).value_or(0);
    const bool parts =
        part * stored.type.bytes() >= target.levels[0].line_bytes && part * batch.extent == stored.shape[last];
    if (!parts) continue;
    std::vector<int64_t> order = {last};
    for (int64_t d = 0; d <= last + 1; ++d) {
      if (d != last) order.push_back(d);
    }
    return {{stored.name, Layout().split(last, {batch.extent, part}).reorder(order)}};
  }
  return {};
}

// Whether the operand that `sum` reads with all of its axes has no reuse but that of neighbouring windows (depthwise).
bool reads_once(const te::Compute& sum) {
  const Result<Contraction> match = schedule::match_contraction(sum);
  if (!match.ok()) return false;
  return std::ranges::any_of(std::array{match->a, match->b}, [&](const Expr& read) {
    return std::ranges::all_of(sum.axes,
                               [&](const te::Axis& x) { return x.extent == 1 || te::uses_axis(read, x.name); });
  });
}

// Guarded copies (padding) before the sum stay: their guards must not reach the innermost loop. Not so where what is
// padded is read once: there the copy costs more than guards at the edges.
te::Program inlined(Schedule& s, const te::Program& program, const te::Compute& sum) {
  const bool once = reads_once(sum);
  return schedule::inline_stages(s, program, [&](const te::Compute& c) {
    return !once && !te::depends_on(program, c, sum.name()) && schedule::has_select(c);
  });
}

// Why the family cannot take a program whose sum is `sum`; empty when it can.
std::string why_declined(const te::Program& program, const te::Compute& sum) {
  for (const te::Compute& c : program.computes) {
    if (&c != &sum && schedule::match_contraction(c).ok()) return c.name() + " is a second contraction";
  }
  return schedule::has_empty_axis(sum) ? sum.name() + " has an axis of extent 0" : "";
}

// The contraction as it is and, where some rows touch padding and others do not, with those that do outside: register
// tiles then span the others (images of a batch), and products with padding are skipped for every row.
std::vector<Contraction> row_orders(const te::Program& program, const Contraction& match) {
  std::vector<Contraction> orders = {match};
  const auto find = [&](const std::string& tensor) { return program.find_compute(tensor); };
  const std::vector<Expr> conditions = te::nonzero_conditions(*match.compute, find);
  Contraction padded_outside = match;
  std::ranges::stable_partition(padded_outside.rows, [&](const te::Axis& row) {
    return std::ranges::any_of(conditions, [&](const Expr& c) { return uses_var(c, row.name); });
  });
  const auto same = [](const te::Axis& a, const te::Axis& b) { return a.name == b.name; };
  if (!std::ranges::equal(padded_outside.rows, match.rows, same)) orders.push_back(std::move(padded_outside));
  return orders;
}

// Time in ns of writing panels of B, `reductions` dimensions by a panel's columns, and reading them again: each while
// it is near, or all of them.
double packing_ns(const Panels& panels, size_t reductions, const TargetInfo& target) {
  const te::Tensor& stored = panels.copy->outputs[0];
  const Shape& shape = stored.shape;
  const auto bytes = [&](Shape::const_iterator from) {
    return static_cast<double>(num_elements(Shape(from, shape.end())) * stored.type.bytes());
  };
  const double near = bytes(panels.inside ? shape.end() - 1 - static_cast<std::ptrdiff_t>(reductions) : shape.begin());
  return 2 * bytes(shape.begin()) / cost::read_rate(target, near, cost::kCacheShare) /
         std::max(1, target.compute_units);
}

using Tilings = std::function<std::vector<ContractionTiling>(const ContractionProblem& problem)>;

// About `limit` of the tilings, as schedules: as many of each order of rows.
Result<Candidates> candidates_of(const GroupTask& task, const TargetInfo& target, size_t limit,
                                 const Tilings& tilings) {
  const te::Compute* first = schedule::find_contraction(task.program);
  if (first == nullptr) return declined("no sum of products");
  const std::string name = first->name();
  Construction base;
  te::Program program = inlined(base.schedule, task.program, *first);
  Result<Contraction> match = schedule::match_contraction(*program.find_compute(name));
  if (!match.ok()) return Reason{match.reason()};
  base.constant_layouts = copy_layouts(program, *match, target);
  if (!base.constant_layouts.empty()) {
    program = te::apply_layouts(program, base.constant_layouts);
    match = schedule::match_contraction(*program.find_compute(name));
    TW_CHECK(match.ok(), "the contraction of {} is gone with the layout of its operand", program.name);
  }
  const te::Compute& sum = *program.find_compute(name);
  if (const std::string reason = why_declined(program, sum); !reason.empty()) return Reason{reason};
  const Result<std::string> output = schedule::epilogue_output(program, sum);
  if (!output.ok()) return Reason{output.reason()};
  schedule_side_stages(base.schedule, program, name, target);

  const auto lanes = std::min<int64_t>(target.lanes(sum.outputs[0].type), match->column.extent);
  Candidates candidates;
  const std::vector<Contraction> orders = row_orders(program, *match);
  for (const Contraction& ordered : orders) {
    const ContractionProblem problem{program, ordered, schedule::reduction_order(program, ordered),
                                     static_cast<int>(lanes)};
    const size_t all = candidates.size() + ceil_div(limit, orders.size());
    for (ContractionTiling& tiling : tilings(problem)) {
      if (candidates.size() == all) break;
      Construction candidate = base;
      Panels panels = place_b(problem, tiling, task, target, candidate);
      panels.inside = panels.copy && packs_inside(problem, tiling, target);
      if (panels.copy && !panels.inside) schedule_stage(candidate.schedule, program, {&*panels.copy}, target);
      const double packing = panels.copy ? packing_ns(panels, problem.reductions.size(), target) : 0;
      schedule_contraction({problem, tiling, *output, std::move(panels)}, candidate.schedule);
      if (!fits_stored(task, candidate)) continue;
      // Tilings that differ in a loop of one iteration have one schedule.
      if (std::ranges::any_of(candidates, [&](const Construction& c) { return is_same(c, candidate); })) continue;
      candidate.predicted_ns = tiling.predicted_ns + packing;
      candidate.trace = std::move(tiling.trace);
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace

Result<Candidates> construct_contraction(const GroupTask& task, const TargetInfo& target) {
  // Where the artefact has the panels already few tilings fit these, but some of each width.
  const size_t tried = task.stored.empty() ? 2 * kCandidates : SIZE_MAX;
  const Result<Candidates> built = candidates_of(task, target, kCandidates, [&](const ContractionProblem& problem) {
    return tile_contraction(problem, target, tried);
  });
  if (!built.ok()) return built;
  if (built->empty()) return construct_contraction({task.program, task.kept, task.libraries, task.precision}, target);
  Candidates candidates = *built;
  std::ranges::stable_sort(candidates, {}, &Construction::predicted_ns);
  return candidates;
}

Result<Candidates> sample_contraction(const GroupTask& task, const TargetInfo& target, const Sampling& sampling) {
  return candidates_of(task, target, sampling.count, [&](const ContractionProblem& problem) {
    return sample_tilings(problem, target, 2 * sampling.count, sampling.seed);
  });
}

}  // namespace tw::construct
