#include <algorithm>

#include "expr/affine.h"
#include "expr/analyzer.h"

namespace tw {
namespace {

Expr end_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges, bool most) {
  const Sum sum = as_sum(e);
  Expr all = int_imm(sum.constant);
  for (const Term& t : sum.terms) {
    if (std::ranges::none_of(inner, [&](const std::string& v) { return uses_var(t.atom, v); })) {
      all = all + t.atom * int_imm(t.coef);
      continue;
    }
    const Interval range = ranges.bounds(t.atom);
    if (range.lo <= Interval::kMin || range.hi >= Interval::kMax) return {};
    all = all + int_imm(t.coef * ((t.coef > 0) == most ? range.hi : range.lo));
  }
  return all;
}

}  // namespace

Expr most_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges) {
  return end_over(inner, e, ranges, true);
}

Expr least_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges) {
  return end_over(inner, e, ranges, false);
}

}  // namespace tw
