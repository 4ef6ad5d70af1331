// Sums of integer multiples of atoms: the normal form of i64 expressions inside the simplifier. Internal to expr.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expr/expr.h"
#include "expr/scalar.h"
#include "support/join.h"

namespace tw {

/// coef * atom. An atom is any scalar i64 expression that is no sum, no negation and no multiple of a constant.
struct Term {
  Expr atom;
  int64_t coef = 0;
};

/// constant + sum of terms. Normal: terms ordered by compare_exprs, one per atom, no zero coefficient.
/// Arithmetic wraps, so that a sum equals its expression modulo 2^64 whatever the values are.
struct Sum {
  std::vector<Term> terms;
  int64_t constant = 0;

  bool is_constant() const { return terms.empty(); }
  /// The coefficient of `atom`, 0 when it is not in the sum. Needs the normal form.
  int64_t coef_of(const Expr& atom) const;
  /// Adds scale * other; the result may not be normal.
  void append(const Sum& other, int64_t scale);
  void append(const Expr& atom, int64_t coef) { terms.push_back({atom, coef}); }
  /// Sorts and merges into the normal form.
  void normalise();
};

/// A total order of expressions by structure: <0, 0, >0. 0 exactly when they are equal.
int compare_exprs(const Expr& a, const Expr& b);

/// scale * s, and a + scale * b, both normal.
Sum scaled(Sum s, int64_t scale);
Sum sum_of(const Sum& a, const Sum& b, int64_t scale_b = 1);
/// The sum of a constant.
Sum constant_sum(int64_t value);

/// Calls part(x, factor) for the parts of which scale * e is the sum, and adds an immediate to `out`; false where e is
/// neither one, nor a sum, nor a multiple of a constant.
template <typename Part>
bool take_apart(const Expr& e, int64_t scale, Sum& out, const Part& part) {
  const Op op = e.op();
  if (op == Op::kIntImm) {
    out.constant = wrapping_add(out.constant, wrapping_mul(e->value, scale));
  } else if (op == Op::kAdd || op == Op::kSub) {
    part(e.arg(0), scale);
    part(e.arg(1), op == Op::kAdd ? scale : wrapping_mul(scale, -1));
  } else if (op == Op::kNeg) {
    part(e.arg(0), wrapping_mul(scale, -1));
  } else if (op == Op::kMul && (e.arg(0).op() == Op::kIntImm || e.arg(1).op() == Op::kIntImm)) {
    const size_t factor = e.arg(1).op() == Op::kIntImm ? 1 : 0;
    part(e.arg(1 - factor), wrapping_mul(scale, e.arg(factor)->value));
  } else {
    return false;
  }
  return true;
}
/// Splits a scalar i64 expression into terms without simplifying anything inside of the atoms. Normal.
Sum as_sum(const Expr& e);

/// The expression of a normal sum: positive terms by falling coefficient, negative ones, the constant last. A sum of
/// negative terms and a positive constant is written `constant - terms`.
Expr to_expr(const Sum& s);

/// e as sum of coefficient * variable + constant, if it is that (variables only, no div, mod, loads).
struct LinearForm {
  std::vector<std::pair<std::string, int64_t>> terms;  // sorted by name, coefficients not 0
  int64_t constant = 0;
};
std::optional<LinearForm> as_linear(const Expr& e);

/// The coefficient of `variable` in e = coefficient * variable + terms that do not use it; nothing when e is no such
/// sum.
std::optional<int64_t> coefficient_of(const Expr& e, const std::string& variable);

// ---- Products with a constant, folded (scaled.cpp).

/// `e` * `factor`, of f32: the factor goes into constants that are factors already, into the terms of sums and into
/// what selects choose from, as long as nothing is computed more often. Constants stay finite.
Expr scaled(const Expr& e, double factor);

/// The positive constant, a factor in `e`, of which all is a multiple that selects choose, beside constants; 1 where
/// there is none.
double common_factor(const Expr& e);

/// `e` / `factor`, its common factor: what it multiplies as it is. Constants stay finite; those of -65536 or less,
/// which masks leave, become the next power of two.
Expr without_factor(const Expr& e, double factor);

}  // namespace tw
