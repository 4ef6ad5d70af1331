// Sums of products with an element-wise epilogue.
//
// The output stage is cut into blocks and register tiles (contraction_tiles.h); inside a tile the accumulators live in
// registers (contraction_loops.h). B is stored in panels [column block][reduction..][columns of a block], so that a
// step reads one contiguous line after the other: constants are stored so at compile time, other operands are copied
// first.
#include "schedule/contraction.h"

#include <algorithm>
#include <array>
#include <functional>

#include "schedule/stages.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/contraction_loops.h"
#include "tune/construct/contraction_operands.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/epilogue.h"

namespace tw::tune {
namespace {

using schedule::Contraction;
using schedule::Schedule;

constexpr size_t kCandidates = 10;  // Roller's K

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

// Whether the operand that `sum` reads with all of its axes has no reuse but that of neighbouring windows (depthwise).
bool reads_once(const te::Compute& sum) {
  const Result<Contraction> match = schedule::match_contraction(sum);
  if (!match.ok()) return false;
  return std::ranges::any_of(std::array{match->a, match->b}, [&](const Expr& read) {
    return std::ranges::all_of(sum.axes,
                               [&](const te::Axis& x) { return x.extent == 1 || schedule::uses_axis(read, x.name); });
  });
}

// Guarded copies (padding) before the sum stay: their guards must not reach the innermost loop. Not so where what is
// padded is read once: there the copy costs more than guards at the edges.
te::Program inlined(Schedule& s, const te::Program& program, const te::Compute& sum) {
  const bool once = reads_once(sum);
  return schedule::inline_stages(s, program, [&](const te::Compute& c) {
    return !once && !te::depends_on(program, c, sum.name()) && has_select(c.body[0]);
  });
}

// The stages before the sum, each a kernel of its own.
void schedule_side_stages(const te::Program& program, const std::string& sum, const TargetInfo& target, Schedule& s) {
  for (const te::Compute& c : program.computes) {
    if (c.name() == sum || te::depends_on(program, c, sum)) continue;
    c.is_reduction() ? schedule_reduction(s, c, target) : schedule_elementwise(s, program, c, target);
  }
}

// Why the family cannot take a program whose sum is `sum`; empty when it can.
std::string obstacle(const te::Program& program, const te::Compute& sum) {
  for (const te::Compute& c : program.computes) {
    if (&c != &sum && schedule::match_contraction(c).ok()) return c.name() + " is a second contraction";
  }
  return has_empty_axis(sum) ? sum.name() + " has an axis of extent 0" : "";
}

using Tilings = std::function<std::vector<ContractionTiling>(const ContractionProblem& problem)>;

// At most `limit` of the tilings, as schedules.
Result<Candidates> candidates_of(const GroupTask& task, const TargetInfo& target, size_t limit,
                                 const Tilings& tilings) {
  const te::Compute* first = find_contraction(task.program);
  if (first == nullptr) return declined("no sum of products");
  const std::string name = first->name();
  Construction base;
  const te::Program program = inlined(base.schedule, task.program, *first);
  const te::Compute& sum = *program.find_compute(name);
  const Result<Contraction> match = schedule::match_contraction(sum);
  if (!match.ok()) return Reason{match.reason()};
  if (const std::string reason = obstacle(program, sum); !reason.empty()) return Reason{reason};
  const Result<std::string> output = schedule::epilogue_output(program, sum);
  if (!output.ok()) return Reason{output.reason()};
  schedule_side_stages(program, name, target, base.schedule);

  const auto lanes = std::min<int64_t>(target.lanes(sum.outputs[0].type), match->column.extent);
  const ContractionProblem problem{program, *match, reduction_order(program, *match), static_cast<int>(lanes)};
  Candidates candidates;
  for (ContractionTiling& tiling : tilings(problem)) {
    if (candidates.size() == limit) break;
    Construction candidate = base;
    place_b(problem, tiling.tile.vectors * problem.lanes, task, target, candidate);
    schedule_contraction({problem, tiling, *output}, candidate.schedule);
    // Tilings that differ in a loop of one iteration have one schedule.
    if (std::ranges::any_of(candidates, [&](const Construction& c) { return is_same(c, candidate); })) continue;
    candidate.predicted_ns = tiling.predicted_ns;
    candidate.trace = std::move(tiling.trace);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace

Result<Candidates> construct_contraction(const GroupTask& task, const TargetInfo& target) {
  return candidates_of(task, target, kCandidates, [&](const ContractionProblem& problem) {
    return tile_contraction(problem, target, 2 * kCandidates);
  });
}

Result<Candidates> sample_contraction(const GroupTask& task, const TargetInfo& target, const Sampling& sampling) {
  return candidates_of(task, target, sampling.count, [&](const ContractionProblem& problem) {
    return sample_tilings(problem, target, 2 * sampling.count, sampling.seed);
  });
}

}  // namespace tw::tune
