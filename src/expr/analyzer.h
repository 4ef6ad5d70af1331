// Index arithmetic: bounds of integer expressions, and the quasi-affine simplifier that removes div and mod.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "expr/expr.h"

namespace tw {

/// All integers lo..hi, both included. Unbounded ends are kMin / kMax.
struct Interval {
  static constexpr int64_t kMin = INT64_MIN / 4;
  static constexpr int64_t kMax = INT64_MAX / 4;
  int64_t lo = kMin;
  int64_t hi = kMax;
  bool is_point() const { return lo == hi; }
};

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

/// e as sum of coefficient * variable + constant, if it is that (variables only, no div, mod, loads).
struct LinearForm {
  std::vector<std::pair<std::string, int64_t>> terms;  // sorted by name, coefficients not 0
  int64_t constant = 0;
};
std::optional<LinearForm> as_linear(const Expr& e);

}  // namespace tw
