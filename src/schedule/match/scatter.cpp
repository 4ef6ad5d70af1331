#include "schedule/match/scatter.h"

#include "schedule/match/stages.h"

namespace tw::schedule {
namespace {

// The axis that `condition` compares with an index of the axes before it and of what is summed; nothing where it is
// another one.
std::optional<size_t> line_of(const te::Compute& sum, const Expr& condition) {
  if (condition.op() == Op::kAnd) {
    const auto first = line_of(sum, condition.arg(0));
    return first ? first : line_of(sum, condition.arg(1));
  }
  if (condition.op() != Op::kEq) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const Expr &axis = condition.arg(side), &index = condition.arg(1 - side);
    if (!axis.is_var()) continue;
    const auto found = std::ranges::find(sum.axes, axis->name, &te::Axis::name);
    if (found == sum.axes.end()) continue;
    const auto moves = [&](const te::Axis& a) { return uses_var(index, a.name); };
    if (std::none_of(found, sum.axes.end(), moves)) return static_cast<size_t>(found - sum.axes.begin());
  }
  return std::nullopt;
}

// The axis that terms choose; nothing where they are summed otherwise.
std::optional<size_t> chosen_axis(const te::Compute& sum) {
  if (!sum.is_reduction() || sum.outputs.size() != 1 || sum.combiner.kind == te::CombinerKind::kTuple)
    return std::nullopt;
  const Expr& term = sum.body[0];
  const bool selects = term.op() == Op::kSelect && equal(term.arg(2), te::identity_of(sum.combiner.kind, term.type()));
  return selects ? line_of(sum, term.arg(0)) : std::nullopt;
}

}  // namespace

bool sums_at_indices(const te::Compute& compute) { return chosen_axis(compute).has_value(); }

Result<Scatter> match_scatter(Schedule& s, const te::Program& program) {
  Scatter out;
  out.program = inline_stages(s, program);
  const Result<const te::Compute*> only = only_reduction(out.program);
  if (!only.ok()) return Reason{only.reason()};
  const te::Compute& sum = **only;
  out.sum = sum.name();
  const std::optional<size_t> line = chosen_axis(sum);
  if (!line) return declined("{} sums nothing at computed indices", out.sum);
  out.line = *line;
  if (has_empty_axis(sum)) return declined("{} has an axis of extent 0", out.sum);
  const Result<std::string> output = epilogue_output(out.program, sum);
  if (!output.ok()) return Reason{output.reason()};
  out.output = *output;
  return out;
}

}  // namespace tw::schedule
