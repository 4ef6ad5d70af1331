// Comparisons of sums, and logic on them.
#include <algorithm>

#include "expr/simplifier.h"
#include "support/math.h"

namespace tw {
namespace {

Expr boolean(bool value) { return int_imm(value, DataType::boolean()); }

// The terms of s with positive coefficients (sign 1), or the negated ones with negative coefficients (sign -1).
Sum terms_of_sign(const Sum& s, int sign) {
  Sum out;
  for (const Term& t : s.terms) {
    if ((t.coef > 0) == (sign > 0)) out.append(t.atom, sign * t.coef);
  }
  return out;
}

int64_t ceil_div_any(int64_t a, int64_t b) { return -floor_div(-a, b); }

// t < limit with t's positive terms on the left: P < N + c, P + c < N, P < c or c <= N.
Expr emit_less(const Sum& t, int64_t limit) {
  Sum left = terms_of_sign(t, 1);
  Sum right = terms_of_sign(t, -1);
  if (left.is_constant()) {
    left.constant = 1 - limit;
    return to_expr(left) <= to_expr(right);
  }
  (limit > 0 || right.is_constant() ? right.constant : left.constant) =
      limit > 0 || right.is_constant() ? limit : -limit;
  return to_expr(left) < to_expr(right);
}

bool is_index_comparison(const Expr& e) {
  return (e.op() == Op::kLt || e.op() == Op::kLe) && e.arg(0).type() == DataType::i64();
}

// A sum as one operand of kAnd or kOr, flattened in order.
void flatten(Op op, const Expr& e, std::vector<Expr>& out) {
  if (e.op() != op) {
    out.push_back(e);
    return;
  }
  flatten(op, e.arg(0), out);
  flatten(op, e.arg(1), out);
}

enum class Joint : uint8_t { kNothing, kFirst, kSecond, kConstant };

// What `a op b` comes to: one of the two, the absorbing constant (false of and, true of or), or nothing simpler.
Joint join(Op op, const Expr& a, const Expr& b, const Expr& not_b) {
  if (equal(a, b)) return Joint::kFirst;
  if (equal(a, not_b)) return Joint::kConstant;
  const auto x = as_upper_bound(a);
  const auto y = as_upper_bound(b);
  if (!x || !y || x->t.terms.size() != y->t.terms.size()) return Joint::kNothing;
  const bool is_and = op == Op::kAnd;
  if (sum_of(x->t, y->t, -1).is_constant()) return (x->limit <= y->limit) == is_and ? Joint::kFirst : Joint::kSecond;
  if (!sum_of(x->t, y->t).is_constant()) return Joint::kNothing;
  // t < x and t > -y: no integer when x <= -y + 1; every integer is in one of them when x > -y.
  const bool decided = is_and ? x->limit <= 1 - y->limit : x->limit > -y->limit;
  return decided ? Joint::kConstant : Joint::kNothing;
}

}  // namespace

std::optional<UpperBound> as_upper_bound(const Expr& condition) {
  if (!is_index_comparison(condition)) return std::nullopt;
  UpperBound out{sum_of(as_sum(condition.arg(0)), as_sum(condition.arg(1)), -1), 0};
  out.limit = wrapping_add(wrapping_mul(out.t.constant, -1), condition.op() == Op::kLe ? 1 : 0);
  out.t.constant = 0;
  return out;
}

Expr Simplifier::condition(const Expr& e) {
  if (e.op() == Op::kNot) return negation(e);
  if (e.op() == Op::kAnd || e.op() == Op::kOr) return logic(e);
  return comparison(e);
}

Expr Simplifier::comparison(const Expr& e) {
  const Expr a = simplify(e.arg(0));
  const Expr b = simplify(e.arg(1));
  const bool is_index = a.type() == DataType::i64();
  if (!a.type().is_float() && equal(a, b)) return boolean(e.op() == Op::kEq || e.op() == Op::kLe);
  if (is_index) {
    const Sum sa = as_sum(a);
    const Sum sb = as_sum(b);
    if (is_exact(sa) && is_exact(sb)) {
      Sum d = sum_of(sa, sb, -1);
      recombine(d);
      if (e.op() == Op::kEq || e.op() == Op::kNe) return equal_to_zero(std::move(d), e.op());
      if (e.op() == Op::kLe) --d.constant;
      return less_than_zero(std::move(d));
    }
  }
  const Expr simple = with_args(e, {a, b});
  if (a.type().is_float() || simple.op() == Op::kIntImm) return simple;
  const Interval range = bounds(simple);
  return range.is_point() ? boolean(range.lo) : simple;
}

// d < 0. Terms that cannot decide it are dropped: 16*x + y < 128 with 0 <= y < 16 is x < 8.
Expr Simplifier::less_than_zero(Sum d) {
  const Interval range = bounds_by_cases(d);
  if (range.hi < 0) return boolean(true);
  if (range.lo >= 0) return boolean(false);
  int64_t limit = -d.constant;
  d.constant = 0;
  bool changed = true;
  while (changed) {
    changed = false;
    for (int64_t g : common_factors(d, 0)) {
      Sum multiple, rest;
      for (const Term& t : d.terms) t.coef % g == 0 ? multiple.append(t.atom, t.coef / g) : rest.append(t.atom, t.coef);
      // g*multiple + rest < limit, whatever the rest is, exactly when multiple < ceil((limit - rest) / g).
      const Interval r = bounds(rest);
      if (!is_finite(r) || ceil_div_any(limit - r.hi, g) != ceil_div_any(limit - r.lo, g)) continue;
      limit = ceil_div_any(limit - r.hi, g);
      d = std::move(multiple);
      changed = true;
      break;
    }
  }
  return emit_less(d, limit);
}

// d == 0 or d != 0, brought to a first term with positive coefficient and no common factor.
Expr Simplifier::equal_to_zero(Sum d, Op op) {
  const bool is_eq = op == Op::kEq;
  if (d.is_constant()) return boolean((d.constant == 0) == is_eq);
  const Interval range = bounds_by_cases(d);
  if (range.lo > 0 || range.hi < 0) return boolean(!is_eq);
  for (int64_t g : common_factors(d, 0)) {
    Sum rest = constant_sum(d.constant);
    for (const Term& t : d.terms) {
      if (t.coef % g != 0) rest.append(t.atom, t.coef);
    }
    const Interval r = bounds(rest);
    if (!is_finite(r)) continue;
    // No multiple of g among the values of the rest.
    if (floor_div(r.hi, g) == floor_div(r.lo - 1, g)) return boolean(!is_eq);
    if (!rest.is_constant()) continue;
    for (Term& t : d.terms) t.coef /= g;
    d.constant /= g;
  }
  if (d.terms[0].coef < 0) d = scaled(d, -1);
  Sum left = terms_of_sign(d, 1);
  Sum right = terms_of_sign(d, -1);
  (d.constant < 0 || right.is_constant() ? right.constant : left.constant) =
      d.constant < 0 || right.is_constant() ? -d.constant : d.constant;
  return binary(op, to_expr(left), to_expr(right));
}

Expr Simplifier::logic(const Expr& e) {
  const Expr a = simplify(e.arg(0));
  const Expr b = simplify(e.arg(1));
  const Expr plain = with_args(e, {a, b});
  if (plain.op() != e.op()) return plain;
  // Longer lists are left as they are: every pair is compared.
  constexpr size_t kLongest = 12;
  std::vector<Expr> list;
  flatten(e.op(), plain, list);
  if (list.size() > kLongest) return plain;
  std::vector<Expr> kept;
  bool dropped = false;
  for (const Expr& x : list) {
    const Expr not_x = negation(logical_not(x));
    Joint joint = Joint::kNothing;
    size_t i = 0;
    while (i < kept.size() && (joint = join(e.op(), kept[i], x, not_x)) == Joint::kNothing) ++i;
    if (joint == Joint::kConstant) return boolean(e.op() == Op::kOr);
    if (joint == Joint::kSecond) kept[i] = x;
    if (joint == Joint::kNothing) kept.push_back(x);
    dropped = dropped || joint != Joint::kNothing;
  }
  if (!dropped) return plain;
  Expr out = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) out = binary(e.op(), out, kept[i]);
  return out;
}

// Takes a kNot node (or what logical_not folded it to).
Expr Simplifier::negation(const Expr& e) {
  if (e.op() != Op::kNot) return e;
  const Expr x = simplify(e.arg(0));
  if (x.op() == Op::kNot) return x.arg(0);
  // A float comparison by < is not the negation of >=, because of NaN; == and != are each other's.
  const bool ordered = (x.op() == Op::kLt || x.op() == Op::kLe) && !x.arg(0).type().is_float();
  if (ordered) return simplify(binary(x.op() == Op::kLt ? Op::kLe : Op::kLt, x.arg(1), x.arg(0)));
  if (x.op() == Op::kEq || x.op() == Op::kNe)
    return simplify(binary(x.op() == Op::kEq ? Op::kNe : Op::kEq, x.arg(0), x.arg(1)));
  return logical_not(x);
}

std::vector<Simplifier::NamedInterval> Simplifier::facts(const Expr& condition, int64_t value) {
  const Op both = value ? Op::kAnd : Op::kOr;
  std::vector<Expr> list;
  flatten(both, condition, list);
  std::vector<NamedInterval> found;
  for (const Expr& x : list) {
    const Expr fact = value ? x : negation(logical_not(x));
    const auto bound = as_upper_bound(fact);
    if (!bound || bound->t.terms.size() != 1 || !bound->t.terms[0].atom.is_var()) continue;
    const Term& t = bound->t.terms[0];
    Interval range = range_of(t.atom->name, t.atom.type());
    for (const auto& [name, known] : found) {
      if (name == t.atom->name) range = known;
    }
    if (t.coef == 1) range.hi = std::min(range.hi, bound->limit - 1);
    if (t.coef == -1) range.lo = std::max(range.lo, 1 - bound->limit);
    // An empty range means that the branch is never taken: any range is right, so the known one stays.
    if (range.lo <= range.hi) found.emplace_back(t.atom->name, range);
  }
  return found;
}

}  // namespace tw
