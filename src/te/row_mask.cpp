#include "te/row_mask.h"

#include <algorithm>

#include "expr/analyzer.h"

namespace tw::te {
namespace {

// Adds what `condition` asks of j; false where that is something else than bounds.
bool add_bounds(const Expr& condition, const std::string& j, std::vector<RowMask::Bound>& found) {
  if (condition.op() == Op::kAnd)
    return add_bounds(condition.arg(0), j, found) && add_bounds(condition.arg(1), j, found);
  if ((condition.op() != Op::kLe && condition.op() != Op::kLt) || condition.arg(0).type() != DataType::i64())
    return false;
  const Expr d = condition.arg(1) - condition.arg(0) - int_imm(condition.op() == Op::kLt ? 1 : 0);
  const Analyzer ranges;
  const auto at = [&](int64_t value) { return substitute(d, {{j, int_imm(value)}}); };
  const Expr step = ranges.simplify(at(1) - at(0));
  if (step.op() != Op::kIntImm || !equal(ranges.simplify(d - at(0)), ranges.simplify(var(j) * step))) return false;
  found.push_back({step->value, ranges.simplify(at(0))});
  return true;
}

}  // namespace

RowMask mask_of(const Expr& element, const std::string& j) {
  RowMask mask;
  const bool masked =
      element.op() == Op::kSelect && element.arg(2).op() == Op::kFloatImm && element.arg(2)->number <= RowMask::kLowest;
  if (!masked || !add_bounds(element.arg(0), j, mask.bounds)) mask.bounds.clear();
  if (!mask.bounds.empty()) mask.kept = element.arg(1);
  return mask;
}

// The room that is left for j is a concave function of the row: it is enough to look at the first and the last one.
bool leaves_each_some(const RowMask& mask, const Axis& row, int64_t length) {
  const Analyzer ranges;
  for (const int64_t i : {int64_t{0}, row.extent - 1}) {
    int64_t low = 0, high = length - 1;
    for (const RowMask::Bound& b : mask.bounds) {
      const Expr rest = ranges.simplify(substitute(b.rest, {{row.name, int_imm(i)}}));
      if (rest.op() != Op::kIntImm || (b.of_j != 1 && b.of_j != -1)) return false;
      if (b.of_j > 0) low = std::max(low, -rest->value);
      if (b.of_j < 0) high = std::min(high, rest->value);
    }
    if (low > high) return false;
  }
  return !mask.bounds.empty();
}

Expr nonzero_where(const Program& program, const Expr& e) {
  const auto both = [](const Expr& a, const Expr& b) { return !a ? b : !b ? a : a && b; };
  switch (e.op()) {
    case Op::kSelect: {
      bool holds = is_zero(e.arg(2));
      visit(e.arg(0), [&](const Expr& part) { holds = holds && part.op() != Op::kLoad; });
      return !holds ? Expr() : both(e.arg(0), nonzero_where(program, e.arg(1)));
    }
    case Op::kMul:
      return both(nonzero_where(program, e.arg(0)), nonzero_where(program, e.arg(1)));
    case Op::kCast:
      return nonzero_where(program, e.arg(0));
    case Op::kLoad: {
      const Compute* c = program.find_compute(e->name);
      if (c == nullptr || c->is_reduction() || c->outputs.size() > 1) return {};
      VarMap at;
      for (size_t d = 0; d < c->axes.size(); ++d) at[c->axes[d].name] = e.arg(static_cast<int>(d));
      return nonzero_where(program, substitute(c->body[0], at));
    }
    default:
      return {};
  }
}

Expr leaves_some(const RowMask& mask, const Expr& first, int64_t count) {
  Expr all;
  for (const RowMask::Bound& b : mask.bounds) {
    const Expr best = b.of_j > 0 ? first + int_imm(count - 1) : first;
    const Expr holds = b.rest + best * int_imm(b.of_j) >= int_imm(0);
    all = all ? all && holds : holds;
  }
  return all;
}

}  // namespace tw::te
