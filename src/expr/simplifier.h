// One run of the simplifier over one expression: what Analyzer::simplify and Analyzer::bounds do. Internal to expr.
//
// Integer arithmetic of i64 is done on Sums, which are exact modulo 2^64. Every step that needs the true value
// (division, comparison by difference) asks is_exact first: it holds when the bounds are finite, and also for sums of
// variables of unknown range, which are taken to be indices far from overflow; it does not hold for unbounded data from
// loads.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "expr/affine.h"
#include "expr/interval.h"

namespace tw {

using RangeMap = std::unordered_map<std::string, Interval>;

inline bool is_finite(const Interval& r) { return r.lo > Interval::kMin && r.hi < Interval::kMax; }
/// [lo, hi] with ends beyond what an Interval can tell opened.
Interval make_interval(__int128 lo, __int128 hi);
Interval intersect(const Interval& a, const Interval& b);

class Simplifier {
 public:
  explicit Simplifier(const RangeMap& ranges) : ranges_(ranges) {}

  Expr simplify(const Expr& e);
  /// Of the expression as it stands: interval arithmetic node by node.
  Interval bounds(const Expr& e);

 private:
  using NamedInterval = std::pair<std::string, Interval>;
  Simplifier(const Simplifier& outer, std::vector<NamedInterval> inner);

  // ---- bounds.cpp
  Interval bounds(const Sum& s);
  /// As bounds, but looks into min, max and select atoms: min(a, b) - a is at most 0.
  Interval bounds_by_cases(const Sum& s, int depth = 3);
  Interval range_of(const std::string& name, DataType type) const;
  Interval compute_bounds(const Expr& e);
  Interval arithmetic_bounds(const Expr& e);
  bool is_exact(const Sum& s);
  bool is_tame(const Expr& e) const;

  // ---- simplify.cpp
  Expr dispatch(const Expr& e);
  Expr any_node(const Expr& e);
  Expr remember(const Expr& e, Expr simple);
  Sum simplified_sum(const Expr& e);
  void collect(const Expr& e, int64_t scale, Sum& out);
  Sum product(const Expr& e);
  Sum division(const Expr& e);
  Expr min_max(const Expr& e);
  Expr select_node(const Expr& e);
  Expr load_node(const Expr& e);
  Expr cast_node(const Expr& e);
  Expr float_node(const Expr& e);
  Expr narrow_node(const Expr& e);
  Expr known_value(const Expr& simple);
  Expr truncated_division(const Expr& e);
  Expr other_index_node(const Expr& e);
  Expr with_simplified_args(const Expr& e);

  // ---- divmod.cpp
  Sum divide(const Sum& s, int64_t c);
  Sum modulo(const Sum& s, int64_t c);
  /// The constant floor(s / c) when it is the same for all values of s.
  std::optional<int64_t> constant_quotient(const Sum& s, int64_t c);
  std::optional<Sum> divide_reduced(const Sum& s, int64_t c);
  std::optional<Sum> divide_atom(const Sum& s, int64_t c);
  std::optional<Sum> modulo_reduced(const Sum& s, int64_t c);
  std::optional<Sum> undo_division(const Sum& w, int64_t n);
  bool split_by(const Sum& s, int64_t g, Sum* multiple, Sum* rest);
  /// Rewrites pairs such as (x/c)*c + x%c; says whether there were any. Keeps the sum normal.
  bool recombine(Sum& s);
  bool recombine_mod(Sum& s, const Term& term, int64_t n);
  bool recombine_div(Sum& s, const Term& term, int64_t n);

  // ---- conditions.cpp
  Expr condition(const Expr& e);
  Expr comparison(const Expr& e);
  Expr less_than_zero(Sum d);
  Expr equal_to_zero(Sum d, Op op);
  Expr logic(const Expr& e);
  Expr negation(const Expr& e);
  /// Ranges of variables that hold wherever the simplified condition has value `value`.
  std::vector<NamedInterval> facts(const Expr& condition, int64_t value);

  // ---- lanes.cpp
  Expr vector_node(const Expr& e);

  const RangeMap& ranges_;
  std::vector<NamedInterval> inner_;  // ranges that hold here only; looked up from the back, before ranges_
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;  // node -> (itself, simplified): keeps it alive
  std::unordered_map<const ExprNode*, std::pair<Expr, Sum>> quotients_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Interval>> bounds_;
};

/// The comparison t < limit (t without constant) that a simplified i64 comparison by kLt or kLe states.
struct UpperBound {
  Sum t;
  int64_t limit = 0;
};
std::optional<UpperBound> as_upper_bound(const Expr& condition);
/// Divisors of interest: gcds of c (0: none) with coefficients, largest first, all above 1.
std::vector<int64_t> common_factors(const Sum& s, int64_t c);

}  // namespace tw
