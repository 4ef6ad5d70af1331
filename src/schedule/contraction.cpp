#include "schedule/contraction.h"

#include <algorithm>

namespace tw::schedule {
namespace {

Expr strip_casts(Expr e) {
  while (e.op() == Op::kCast) e = e.arg(0);
  return e;
}

// The load of a padded read: select(inside, load, constant).
Expr strip_guard(const Expr& e) {
  const Expr bare = strip_casts(e);
  if (bare.op() != Op::kSelect) return bare;
  const Expr read = strip_casts(bare.arg(1));
  return read.op() == Op::kLoad && bare.arg(2).op() == Op::kFloatImm ? read : bare;
}

}  // namespace

bool uses_axis(const Expr& read, const std::string& axis) {
  return std::any_of(read->args.begin(), read->args.end(), [&](const Expr& index) { return uses_var(index, axis); });
}

int dim_of_axis(const Expr& read, const std::string& axis) {
  for (size_t d = 0; d < read->args.size(); ++d) {
    if (read.arg(d).is_var() && read.arg(d)->name == axis) return static_cast<int>(d);
  }
  return -1;
}

Result<Contraction> match_contraction(const te::Compute& compute) {
  if (!compute.is_reduction() || compute.combiner.kind != te::CombinerKind::kSum)
    return declined("{} is no sum", compute.name());
  if (compute.outputs.size() != 1 || compute.axes.empty())
    return declined("{} has no axis or several outputs", compute.name());
  const Expr& body = compute.body[0];
  if (body.op() != Op::kMul) return declined("{} does not sum products", compute.name());
  Contraction match;
  match.compute = &compute;
  match.a = strip_guard(body.arg(0));
  match.b = strip_guard(body.arg(1));
  match.guarded = strip_casts(body.arg(0)).op() == Op::kSelect || strip_casts(body.arg(1)).op() == Op::kSelect;
  if (match.a.op() != Op::kLoad || match.b.op() != Op::kLoad)
    return declined("{} multiplies more than two reads", compute.name());
  match.column = compute.axes.back();
  const auto rows_for = [&](const Expr& b) {
    return std::count_if(compute.axes.begin(), compute.axes.end(),
                         [&](const te::Axis& x) { return !uses_axis(b, x.name); });
  };
  const bool a_has = uses_axis(match.a, match.column.name);
  const bool b_has = uses_axis(match.b, match.column.name);
  if (!a_has && !b_has) return declined("no operand of {} uses its last axis", compute.name());
  // B is the operand along the column; where both are (depthwise), the one that leaves more rows to reuse it.
  if (!b_has || (a_has && rows_for(match.a) > rows_for(match.b))) std::swap(match.a, match.b);
  match.a_uses_column = uses_axis(match.a, match.column.name);
  for (size_t i = 0; i + 1 < compute.axes.size(); ++i) {
    const te::Axis& axis = compute.axes[i];
    (uses_axis(match.b, axis.name) ? match.batch : match.rows).push_back(axis);
  }
  return match;
}

}  // namespace tw::schedule
