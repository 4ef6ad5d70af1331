// Index arithmetic: bounds of integer expressions, and the quasi-affine simplifier that removes div and mod.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/shape.h"
#include "expr/expr.h"
#include "expr/interval.h"

namespace tw {

/// Knows the range of each variable; bounds and simplifies what is built from them.
class Analyzer {
 public:
  /// From now on variable `name` is in [lo, lo + extent).
  void bind(const std::string& name, int64_t lo, int64_t extent);
  void unbind(const std::string& name);

  /// Smallest interval found that holds every value of the integer or bool expression e (false 0, true 1).
  Interval bounds(const Expr& e) const;

  /// An equal expression, canonical and no more costly. Integers: sums in the form c0 + c1*v1 + .. with constants last,
  /// nested and needless kFloorDiv/kFloorMod removed ((x*c + y)/c -> x when 0 <= y < c; (x/c)*c + x%c -> x), min, max,
  /// comparisons and selects decided where the bounds decide them. Floats: only identities that keep every bit
  /// (select of a constant condition, x*1, cast of a constant); never reassociated. Works inside loads, vectors, calls.
  Expr simplify(const Expr& e) const;

 private:
  std::unordered_map<std::string, Interval> ranges_;
};

// ---- What an analyzer tells of expressions (extreme.cpp, inside.cpp).
/// The most, or the least, that `e` can be over the values of `inner`, in terms of its other variables; null where that
/// is not known. `ranges` knows the variables.
Expr most_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges);
Expr least_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges);

/// Whether `condition` says no more than that indices are in a tensor of `shape`; a null one says nothing.
bool all_inside(const Expr& condition, const std::vector<Expr>& indices, const Shape& shape, const Analyzer& ranges);

}  // namespace tw
