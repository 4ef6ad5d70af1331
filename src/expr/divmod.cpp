// Floor division and remainder of sums by constants, and the pairs of them that join again.
#include <algorithm>
#include <numeric>

#include "expr/simplifier.h"
#include "support/math.h"

namespace tw {
namespace {

Sum single(Expr atom, int64_t coef = 1) {
  Sum s;
  s.append(atom, coef);
  return s;
}

// The remainder with the sign of a, so that small negative coefficients stay small.
int64_t truncated_remainder(int64_t a, int64_t c) { return a % c; }

// In (-c/2, c/2].
int64_t symmetric_remainder(int64_t a, int64_t c) {
  const int64_t r = floor_mod(a, c);
  return r > c / 2 ? r - c : r;
}

using Remainder = int64_t (*)(int64_t, int64_t);

// Every coefficient replaced by its remainder, the constant by the non-negative one; the rest is c times *quotient.
Sum reduced(const Sum& s, int64_t c, Remainder remainder, Sum* quotient = nullptr) {
  Sum out = constant_sum(floor_mod(s.constant, c));
  if (quotient) *quotient = constant_sum(floor_div(s.constant, c));
  for (const Term& t : s.terms) {
    const int64_t r = remainder(t.coef, c);
    if (r != 0) out.append(t.atom, r);
    if (quotient && t.coef != r) quotient->append(t.atom, (t.coef - r) / c);
  }
  return out;  // as ordered as s
}

int64_t keep_unless_divisible(int64_t a, int64_t c) { return a % c == 0 ? 0 : a; }

bool contains(const Sum& s, const Sum& part, int64_t scale) {
  return std::ranges::all_of(part.terms,
                             [&](const Term& t) { return s.coef_of(t.atom) == wrapping_mul(t.coef, scale); });
}

bool is_by_constant(const Expr& e, Op op) {
  return e.op() == op && e.arg(1).op() == Op::kIntImm && e.arg(1)->value > 0;
}

// Whether a and b differ by a multiple of n for all values of their atoms.
bool congruent(const Sum& a, const Sum& b, int64_t n) {
  const Sum d = sum_of(a, b, -1);
  return d.constant % n == 0 && std::ranges::all_of(d.terms, [n](const Term& t) { return t.coef % n == 0; });
}

}  // namespace

std::vector<int64_t> common_factors(const Sum& s, int64_t c) {
  std::vector<int64_t> coefs = mapped(s.terms, [](const Term& t) { return std::abs(t.coef); });
  std::ranges::sort(coefs, std::greater<>());
  std::vector<int64_t> factors;
  int64_t prefix = c;
  for (int64_t a : coefs) {
    prefix = std::gcd(prefix, a);
    factors.push_back(prefix);
    factors.push_back(std::gcd(c, a));
  }
  std::ranges::sort(factors, std::greater<>());
  factors.erase(std::unique(factors.begin(), factors.end()), factors.end());
  std::erase_if(factors, [](int64_t g) { return g <= 1; });
  return factors;
}

std::optional<int64_t> Simplifier::constant_quotient(const Sum& s, int64_t c) {
  const Interval r = bounds(s);
  if (!is_finite(r) || floor_div(r.lo, c) != floor_div(r.hi, c)) return std::nullopt;
  return floor_div(r.lo, c);
}

// s = g * multiple + rest with 0 <= rest < g. False when that cannot be shown.
bool Simplifier::split_by(const Sum& s, int64_t g, Sum* multiple, Sum* rest) {
  *rest = reduced(s, g, keep_unless_divisible, multiple);
  const std::optional<int64_t> whole = constant_quotient(*rest, g);
  if (!whole) return false;
  multiple->constant += *whole;
  rest->constant -= *whole * g;
  return true;
}

// The quotient when every multiple of c can be taken out of the coefficients so that the rest has a known quotient.
std::optional<Sum> Simplifier::divide_reduced(const Sum& s, int64_t c) {
  for (Remainder remainder : {Remainder(keep_unless_divisible), Remainder(truncated_remainder), Remainder(floor_mod)}) {
    Sum quotient;
    const Sum rest = reduced(s, c, remainder, &quotient);
    if (const auto whole = constant_quotient(rest, c)) {
      quotient.constant += *whole;
      return quotient;
    }
  }
  return std::nullopt;
}

// (y/d + k)/c = (y + k*d)/(d*c), and (y % n)/c = (y/c) % (n/c) when c divides n.
std::optional<Sum> Simplifier::divide_atom(const Sum& s, int64_t c) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  if (s.terms.size() != 1 || s.terms[0].coef != 1) return std::nullopt;
  const Expr& atom = s.terms[0].atom;
  if (is_by_constant(atom, Op::kFloorDiv)) {
    const int64_t d = atom.arg(1)->value;
    if (d > kLargest / c) return std::nullopt;
    Sum inner = as_sum(atom.arg(0));
    inner.constant += s.constant * d;
    return divide(inner, d * c);
  }
  if (is_by_constant(atom, Op::kFloorMod) && s.constant == 0 && atom.arg(1)->value % c == 0) {
    return modulo(divide(as_sum(atom.arg(0)), c), atom.arg(1)->value / c);
  }
  return std::nullopt;
}

Sum Simplifier::divide(const Sum& s, int64_t c) {
  const Expr divisor = int_imm(c);
  if (c == 0 || c == INT64_MIN || !is_exact(s)) {
    if (c != 0 && c != -1 && s.is_constant()) return constant_sum(floor_div(s.constant, c));
    return c == 1 ? s : single(floor_div(to_expr(s), divisor));
  }
  if (c < 0) return divide(scaled(s, -1), -c);
  if (c == 1) return s;
  if (auto found = divide_reduced(s, c)) return *found;
  Sum quotient;
  const Sum rest = reduced(s, c, keep_unless_divisible, &quotient);
  for (int64_t g : common_factors(rest, c)) {
    Sum multiple, small;
    if (split_by(rest, g, &multiple, &small)) return sum_of(quotient, divide(multiple, c / g));
  }
  if (auto found = divide_atom(rest, c)) return sum_of(quotient, *found);
  quotient.append(floor_div(to_expr(rest), divisor), 1);
  quotient.normalise();
  return quotient;
}

// s reduced to a sum that is known to be in [0, c).
std::optional<Sum> Simplifier::modulo_reduced(const Sum& s, int64_t c) {
  for (Remainder remainder : {Remainder(keep_unless_divisible), Remainder(truncated_remainder), Remainder(floor_mod),
                              Remainder(symmetric_remainder)}) {
    Sum rest = reduced(s, c, remainder);
    if (const auto whole = constant_quotient(rest, c)) {
      rest.constant -= *whole * c;
      return rest;
    }
  }
  return std::nullopt;
}

Sum Simplifier::modulo(const Sum& s, int64_t c) {
  const Expr divisor = int_imm(c);
  if (c == 0 || c == INT64_MIN || !is_exact(s)) {
    if (c != 0 && c != -1 && s.is_constant()) return constant_sum(floor_mod(s.constant, c));
    return c == 1 ? Sum() : single(floor_mod(to_expr(s), divisor));
  }
  if (c < 0) return scaled(modulo(scaled(s, -1), -c), -1);
  if (c == 1) return Sum();
  if (auto found = modulo_reduced(s, c)) return *found;
  // k*(y % n) differs from k*y by a multiple of k*n: the inner remainder is not needed when c divides that.
  Sum open = constant_sum(s.constant);
  bool opened = false;
  for (const Term& t : s.terms) {
    const bool drop = is_by_constant(t.atom, Op::kFloorMod) && wrapping_mul(t.coef, t.atom.arg(1)->value) % c == 0;
    drop ? open.append(as_sum(t.atom.arg(0)), t.coef) : open.append(t.atom, t.coef);
    opened = opened || drop;
  }
  open.normalise();
  if (opened && is_exact(open)) return modulo(open, c);
  Sum rest = reduced(s, c, symmetric_remainder);
  if (recombine(rest)) return modulo(rest, c);  // 8*x + x%4 modulo 3 is x%4 - x
  for (int64_t g : common_factors(rest, c)) {
    Sum multiple, small;
    if (split_by(rest, g, &multiple, &small)) return sum_of(small, modulo(multiple, c / g), g);
  }
  return single(floor_mod(to_expr(rest), divisor));
}

// y with w = floor(y / n), when w is a quotient plus a sum: y'/n, y'/(n*d), or (y'/d)/(n/d).
std::optional<Sum> Simplifier::undo_division(const Sum& w, int64_t n) {
  for (const Term& t : w.terms) {
    if (t.coef != 1 || !is_by_constant(t.atom, Op::kFloorDiv)) continue;
    const Sum inner = as_sum(t.atom.arg(0));
    const int64_t by = t.atom.arg(1)->value;
    std::optional<Sum> whole;
    if (by % n == 0) whole = divide(inner, by / n);
    if (by % n != 0 && n % by == 0) whole = undo_division(inner, n / by);
    if (whole) return sum_of(*whole, sum_of(w, single(t.atom), -1), n);
  }
  return std::nullopt;
}

// term = k * (z % n).
bool Simplifier::recombine_mod(Sum& s, const Term& term, int64_t n) {
  const int64_t k = term.coef;
  const Sum inner = as_sum(term.atom.arg(0));
  // k*n*(w % m) + k*(z % n) = k*(y % (n*m)) where w = y/n modulo m and z = y modulo n.
  for (const Term& t : s.terms) {
    if (t.coef != wrapping_mul(k, n) || !is_by_constant(t.atom, Op::kFloorMod)) continue;
    const std::optional<Sum> whole = undo_division(as_sum(t.atom.arg(0)), n);
    if (!whole || !congruent(*whole, inner, n) || !is_exact(*whole)) continue;
    const Sum joined = modulo(*whole, n * t.atom.arg(1)->value);
    s = sum_of(sum_of(sum_of(s, single(t.atom), -t.coef), single(term.atom), -k), joined, k);
    return true;
  }
  // k*y - k*(y%n) = k*n*(y/n)
  if (!contains(s, inner, -k) || !is_exact(inner)) return false;
  const Sum quotient = divide(inner, n);
  if (quotient.terms.size() > inner.terms.size()) return false;
  s = sum_of(sum_of(sum_of(s, inner, k), single(term.atom), -k), quotient, -wrapping_mul(k, n));
  return true;
}

// term = k*n * (y/n).
bool Simplifier::recombine_div(Sum& s, const Term& term, int64_t n) {
  // k*m*w + k*(z%m) = k*y where w = y/m and z = y modulo m.
  for (const Term& t : s.terms) {
    if (!is_by_constant(t.atom, Op::kFloorMod)) continue;
    const int64_t k = t.coef, m = t.atom.arg(1)->value;
    if (term.coef != wrapping_mul(k, m)) continue;
    const std::optional<Sum> whole = undo_division(single(term.atom), m);
    if (!whole || !congruent(*whole, as_sum(t.atom.arg(0)), m) || !is_exact(*whole)) continue;
    s = sum_of(sum_of(sum_of(s, single(t.atom), -k), single(term.atom), -term.coef), *whole, k);
    return true;
  }
  if (term.coef % n != 0) return false;
  const int64_t k = term.coef / n;
  const Sum inner = as_sum(term.atom.arg(0));
  // k*n*(y/n) - k*y = -k*(y%n)
  if (!contains(s, inner, -k) || !is_exact(inner)) return false;
  s = sum_of(sum_of(sum_of(s, inner, k), single(term.atom), -term.coef), modulo(inner, n), -k);
  return true;
}

bool Simplifier::recombine(Sum& s) {
  // Each rewrite removes a quotient or a remainder that another one covers; the limit is a guard, not a tuning knob.
  constexpr int kMaxRewrites = 64;
  for (int count = 0; count < kMaxRewrites; ++count) {
    bool changed = false;
    for (size_t i = 0; i < s.terms.size() && s.terms.size() > 1 && !changed; ++i) {
      const Term term = s.terms[i];
      if (is_by_constant(term.atom, Op::kFloorMod)) changed = recombine_mod(s, term, term.atom.arg(1)->value);
      if (is_by_constant(term.atom, Op::kFloorDiv)) changed = recombine_div(s, term, term.atom.arg(1)->value);
    }
    if (!changed) return count > 0;
  }
  return true;
}

}  // namespace tw
