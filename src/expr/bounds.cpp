// Interval arithmetic on expressions.
#include <algorithm>

#include "expr/simplifier.h"
#include "support/math.h"

namespace tw {
namespace {

constexpr Interval kEverything{};

// Every value of the type. u64 has values that int64_t cannot tell: nothing is known of it.
Interval type_range(DataType type) {
  if (type.is_bool()) return {0, 1};
  if (type.is_float() || type.bits() == 64) return kEverything;
  const int64_t size = int64_t{1} << type.bits();
  return type.is_signed_int() ? Interval{-size / 2, size / 2 - 1} : Interval{0, size - 1};
}

// a + scale * b; an open end may stand for a value that wraps, so that nothing is known of the result.
Interval add(const Interval& a, const Interval& b, int64_t scale) {
  if (!is_finite(a) || !is_finite(b)) return kEverything;
  const __int128 x = static_cast<__int128>(b.lo) * scale;
  const __int128 y = static_cast<__int128>(b.hi) * scale;
  return make_interval(a.lo + std::min(x, y), a.hi + std::max(x, y));
}

Interval multiply(const Interval& a, const Interval& b) {
  if (!is_finite(a) || !is_finite(b)) return kEverything;
  const auto corner = [](int64_t x, int64_t y) { return static_cast<__int128>(x) * y; };
  const auto corners = {corner(a.lo, b.lo), corner(a.lo, b.hi), corner(a.hi, b.lo), corner(a.hi, b.hi)};
  return make_interval(std::min(corners), std::max(corners));
}

int64_t end_div(int64_t end, int64_t divisor) {
  return end == Interval::kMin || end == Interval::kMax ? end : floor_div(end, divisor);
}

// Divisors of one sign only: floor division is monotonic in the dividend, and between the ends in the divisor.
Interval quotient_range(const Interval& a, Interval b) {
  if (b.lo <= 0 || !is_finite(b)) return kEverything;
  const int64_t lo = std::min(end_div(a.lo, b.lo), end_div(a.lo, b.hi));
  const int64_t hi = std::max(end_div(a.hi, b.lo), end_div(a.hi, b.hi));
  return {lo, hi};
}

Interval remainder_range(const Interval& a, const Interval& b) {
  if (b.lo <= 0) return kEverything;
  const int64_t hi = b.hi == Interval::kMax ? Interval::kMax : b.hi - 1;
  if (a.lo >= 0 && is_finite(b) && a.hi < b.lo) return a;
  return {0, a.lo >= 0 ? std::min(hi, a.hi) : hi};
}

Interval unite(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval known(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }

bool ends_known(const Interval& a, const Interval& b) { return a.hi < Interval::kMax && b.lo > Interval::kMin; }

Interval compare(Op op, const Interval& a, const Interval& b) {
  const bool below = ends_known(a, b) && a.hi < b.lo;
  const bool not_above = ends_known(a, b) && a.hi <= b.lo;
  const bool above = ends_known(b, a) && b.hi < a.lo;
  const bool not_below = ends_known(b, a) && b.hi <= a.lo;
  const bool same = a.is_point() && b.is_point() && a.lo == b.lo && is_finite(a);
  if (op == Op::kLt) return known(below, not_below);
  if (op == Op::kLe) return known(not_above, above);
  return op == Op::kEq ? known(same, below || above) : known(below || above, same);
}

bool is_wild(const Expr& e) { return e.op() == Op::kLoad || e.op() == Op::kCall || e.type().is_float(); }

}  // namespace

Interval make_interval(__int128 lo, __int128 hi) {
  if (lo < INT64_MIN || hi > INT64_MAX) return kEverything;
  const auto low = static_cast<int64_t>(lo);
  const auto high = static_cast<int64_t>(hi);
  // An end that is not open stays inside (kMin, kMax).
  return {low <= Interval::kMin ? Interval::kMin : std::min(low, Interval::kMax - 1),
          high >= Interval::kMax ? Interval::kMax : std::max(high, Interval::kMin + 1)};
}

Interval intersect(const Interval& a, const Interval& b) {
  const Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}

Interval Simplifier::range_of(const std::string& name, DataType type) const {
  for (size_t i = inner_.size(); i-- > 0;) {
    if (inner_[i].first == name) return inner_[i].second;
  }
  return value_or(ranges_, name, type_range(type));
}

Interval Simplifier::bounds(const Expr& e) {
  if (e.op() == Op::kIntImm)
    return e.type().scalar() == ScalarType::kU64 ? kEverything : make_interval(e->value, e->value);
  if (e.type().is_float()) return kEverything;
  if (e.is_var()) return range_of(e->name, e.type());
  if (const auto it = bounds_.find(&*e); it != bounds_.end()) return it->second.second;
  Interval found = compute_bounds(e);
  const Interval type = type_range(e.type());
  // Narrow integers wrap: a value outside of the type may be any value of it.
  if (is_finite(type) && (found.lo < type.lo || found.hi > type.hi)) found = type;
  if (e.type().scalar() == ScalarType::kU64) found = kEverything;
  bounds_.emplace(&*e, std::pair(e, found));
  return found;
}

Interval Simplifier::compute_bounds(const Expr& e) {
  switch (e.op()) {
    case Op::kBroadcast:
    case Op::kExtract:
    case Op::kReduceMin:
    case Op::kReduceMax:
    case Op::kReduceAnd:
    case Op::kReduceOr:
      return bounds(e.arg(0));
    case Op::kRamp:
      return add(bounds(e.arg(0)), multiply(bounds(e.arg(1)), {0, e.type().lanes() - 1}), 1);
    case Op::kSelect:
      return unite(bounds(e.arg(1)), bounds(e.arg(2)));
    case Op::kCast:
      if (e.arg(0).type().is_float()) return type_range(e.type());
      if (e.type().is_bool()) return compare(Op::kNe, bounds(e.arg(0)), {0, 0});
      return bounds(e.arg(0));
    case Op::kNeg:
      return add({0, 0}, bounds(e.arg(0)), -1);
    case Op::kNot: {
      const Interval a = bounds(e.arg(0));
      return e.type().is_bool() ? Interval{1 - a.hi, 1 - a.lo} : add({-1, -1}, a, -1);
    }
    case Op::kAbs: {
      const Interval a = bounds(e.arg(0));
      if (!is_finite(a)) return kEverything;
      return a.lo >= 0 ? a : a.hi <= 0 ? Interval{-a.hi, -a.lo} : Interval{0, std::max(-a.lo, a.hi)};
    }
    default:
      return e->args.size() == 2 && !e.arg(0).type().is_float() ? arithmetic_bounds(e) : type_range(e.type());
  }
}

Interval Simplifier::arithmetic_bounds(const Expr& e) {
  const Interval a = bounds(e.arg(0));
  const Interval b = bounds(e.arg(1));
  switch (e.op()) {
    case Op::kAdd:
      return add(a, b, 1);
    case Op::kSub:
      return add(a, b, -1);
    case Op::kMul:
      return multiply(a, b);
    case Op::kDiv:
      return a.lo >= 0 ? quotient_range(a, b) : kEverything;
    case Op::kFloorDiv:
      return quotient_range(a, b);
    case Op::kFloorMod:
      return remainder_range(a, b);
    case Op::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::kAnd:
      if (e.type().is_bool()) return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      // The result has only bits that a side without sign has.
      if (a.lo < 0 && b.lo < 0) return type_range(e.type());
      return {0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : std::min(a.hi, b.hi)};
    case Op::kOr:
      return e.type().is_bool() ? Interval{std::max(a.lo, b.lo), std::max(a.hi, b.hi)} : type_range(e.type());
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
      return compare(e.op(), a, b);
    default:
      return type_range(e.type());
  }
}

Interval Simplifier::bounds(const Sum& s) {
  Interval total = make_interval(s.constant, s.constant);
  for (const Term& t : s.terms) {
    if (s.constant == 0 && s.terms.size() == 1 && t.coef == 1) return bounds(t.atom);
    total = add(total, bounds(t.atom), t.coef);
    if (!is_finite(total)) return kEverything;
  }
  return total;
}

Interval Simplifier::bounds_by_cases(const Sum& s, int depth) {
  const Interval plain = bounds(s);
  if (depth == 0) return plain;
  const auto has_cases = [](const Term& t) {
    return t.atom.op() == Op::kMin || t.atom.op() == Op::kMax || t.atom.op() == Op::kSelect;
  };
  const auto found = std::ranges::find_if(s.terms, has_cases);
  if (found == s.terms.end()) return plain;
  const Term term = *found;
  Sum rest = s;
  rest.terms.erase(rest.terms.begin() + (found - s.terms.begin()));
  const size_t first = term.atom.op() == Op::kSelect ? 1 : 0;
  const Interval a = bounds_by_cases(sum_of(rest, as_sum(term.atom.arg(first)), term.coef), depth - 1);
  const Interval b = bounds_by_cases(sum_of(rest, as_sum(term.atom.arg(first + 1)), term.coef), depth - 1);
  if (term.atom.op() == Op::kSelect) return intersect(unite(a, b), plain);
  const bool min = (term.atom.op() == Op::kMin) == (term.coef > 0);
  if (min) return intersect({std::min(a.lo, b.lo), std::min(a.hi, b.hi)}, plain);
  return intersect({std::max(a.lo, b.lo), std::max(a.hi, b.hi)}, plain);
}

bool Simplifier::is_tame(const Expr& e) const {
  if (is_wild(e)) return false;
  if (e.is_var()) return !e->name.starts_with("$leaf");  // stands for a vector leaf inside lanes.cpp
  return std::ranges::all_of(e->args, [&](const Expr& x) { return is_tame(x); });
}

bool Simplifier::is_exact(const Sum& s) {
  // Far above any index, far below what overflows when a few such terms meet.
  constexpr int64_t kLargest = int64_t{1} << 40;
  const auto large = [](int64_t x) { return x > kLargest || x < -kLargest; };
  if (large(s.constant)) return false;
  for (const Term& t : s.terms) {
    if (large(t.coef)) return false;
  }
  if (is_finite(bounds(s))) return true;
  return std::ranges::all_of(s.terms, [&](const Term& t) { return is_finite(bounds(t.atom)) || is_tame(t.atom); });
}

}  // namespace tw
