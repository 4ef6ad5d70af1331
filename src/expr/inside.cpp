#include <algorithm>

#include "expr/analyzer.h"

namespace tw {
namespace {

// By what `e` divides, if it does: 1 otherwise.
int64_t divisor_in(const Expr& e) {
  int64_t found = 1;
  visit(e, [&](const Expr& x) {
    if (x.op() == Op::kFloorDiv && x.arg(1).op() == Op::kIntImm) found = x.arg(1)->value;
  });
  return found;
}

// Whether `term` says no more than that an index is in its dim: it is what 0 <= index or index < extent comes to, or
// the same of whole blocks, floor(index / b) < extent / b.
bool keeps_inside(const Expr& term, const std::vector<Expr>& indices, const Shape& shape, const Analyzer& ranges) {
  const Expr simple = ranges.simplify(term);
  for (const int64_t block : {int64_t{1}, divisor_in(simple)}) {
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr index = floor_div(indices[d], int_imm(block));
      if (shape[d] % block != 0) continue;
      if (equal(ranges.simplify(int_imm(0) <= index), simple)) return true;
      if (equal(ranges.simplify(index < int_imm(shape[d] / block)), simple)) return true;
    }
  }
  return false;
}

}  // namespace

bool all_inside(const Expr& condition, const std::vector<Expr>& indices, const Shape& shape, const Analyzer& ranges) {
  if (!condition || condition.op() != Op::kAnd) return !condition || keeps_inside(condition, indices, shape, ranges);
  return std::ranges::all_of(condition->args,
                             [&](const Expr& term) { return all_inside(term, indices, shape, ranges); });
}

}  // namespace tw
