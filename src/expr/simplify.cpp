// The simplifier's dispatch, and the nodes that are neither division nor condition nor vector arithmetic.
#include <algorithm>
#include <bit>
#include <cmath>

#include "expr/scalar.h"
#include "expr/simplifier.h"

namespace tw {
namespace {

bool is_scalar_index(const Expr& e) { return e.type() == DataType::i64(); }
bool is_condition_op(Op op) { return is_comparison(op) || op == Op::kAnd || op == Op::kOr || op == Op::kNot; }

bool is_vector_index_op(const Expr& e) {
  if (e.type().scalar() != ScalarType::kI64 && !e.type().is_bool()) return false;
  return (e.op() >= Op::kAdd && e.op() <= Op::kMax) || e.op() == Op::kNeg || is_condition_op(e.op()) ||
         e.op() == Op::kSelect;
}

bool is_float_bits(const Expr& e, double value) {
  const Expr& x = e.op() == Op::kBroadcast ? e.arg(0) : e;
  return x.op() == Op::kFloatImm && std::bit_cast<uint64_t>(x->number) == std::bit_cast<uint64_t>(value);
}

// The immediate that a cast of an immediate gives; null where folding it could change bits.
Expr fold_cast(DataType type, const Expr& x) {
  constexpr int64_t kExactInDouble = int64_t{1} << 53;
  if (x.op() == Op::kIntImm && type.is_float()) {
    if (x->value > kExactInDouble || x->value < -kExactInDouble) return Expr();
    return float_imm(static_cast<double>(x->value), type);
  }
  if (x.op() != Op::kFloatImm || type.scalar() == ScalarType::kU64) return Expr();
  if (type.is_float()) return std::isnan(x->number) ? Expr() : float_imm(x->number, type);
  return int_imm(saturate_to(type.scalar(), x->number), type);
}

}  // namespace

Simplifier::Simplifier(const Simplifier& outer, std::vector<NamedInterval> inner)
    : ranges_(outer.ranges_), inner_(outer.inner_) {
  inner_.insert(inner_.end(), inner.begin(), inner.end());
}

Expr Simplifier::simplify(const Expr& e) {
  if (e.op() == Op::kIntImm || e.op() == Op::kFloatImm) return e;
  if (const auto it = done_.find(&*e); it != done_.end()) return it->second.second;
  const Expr simple = dispatch(e);
  return remember(e, simple);
}

// Keeps the node when nothing changed; a simplified node is its own simplification.
Expr Simplifier::remember(const Expr& e, Expr simple) {
  if (equal(simple, e)) simple = e;
  done_.emplace(&*e, std::pair(e, simple));
  if (!simple.same(e)) done_.emplace(&*simple, std::pair(simple, simple));
  return simple;
}

Expr Simplifier::dispatch(const Expr& e) {
  if (e.type().is_vector()) {
    if (is_vector_index_op(e)) return vector_node(e);
    if (e.op() == Op::kRamp) {
      const Expr stride = simplify(e.arg(1));
      if (stride.is_int(0)) return broadcast(simplify(e.arg(0)), e.type().lanes());
    }
  } else {
    if (is_scalar_index(e)) return to_expr(simplified_sum(e));
    if (e.type().is_bool() && is_condition_op(e.op())) return condition(e);
  }
  return any_node(e);
}

Expr Simplifier::any_node(const Expr& e) {
  if (e.op() == Op::kLoad) return load_node(e);
  if (e.op() == Op::kCast) return cast_node(e);
  if (e.op() == Op::kSelect) return select_node(e);
  return e.type().is_float() ? float_node(e) : narrow_node(e);
}

Expr Simplifier::with_simplified_args(const Expr& e) {
  return with_args(e, mapped(e->args, [&](const Expr& x) { return simplify(x); }));
}

// ---- Scalar i64.

Sum Simplifier::simplified_sum(const Expr& e) {
  Sum s;
  collect(e, 1, s);
  s.normalise();
  recombine(s);
  return s;
}

// Appends scale * simplified(e). Walks chains of additions without building sums in between.
void Simplifier::collect(const Expr& e, int64_t scale, Sum& out) {
  const auto part = [&](const Expr& x, int64_t factor) { collect(x, factor, out); };
  if (take_apart(e, scale, out, part)) return;
  if (e.is_var()) {
    const Interval range = range_of(e->name, e.type());
    if (!range.is_point()) return out.append(e, scale);
    out.constant = wrapping_add(out.constant, wrapping_mul(range.lo, scale));
  } else if (e.op() == Op::kMul) {
    out.append(product(e), scale);
  } else if (e.op() == Op::kFloorDiv || e.op() == Op::kFloorMod) {
    if (const auto it = quotients_.find(&*e); it != quotients_.end()) return out.append(it->second.second, scale);
    const Sum s = division(e);
    quotients_.emplace(&*e, std::pair(e, s));
    out.append(s, scale);
  } else {
    out.append(as_sum(other_index_node(e)), scale);
  }
}

Sum Simplifier::product(const Expr& e) {
  Sum a = simplified_sum(e.arg(0));
  Sum b = simplified_sum(e.arg(1));
  if (a.is_constant()) return scaled(b, a.constant);
  if (b.is_constant()) return scaled(a, b.constant);
  // Constant factors go in front: (4*x)*y = 4*(x*y).
  int64_t factor = 1;
  for (Sum* s : {&a, &b}) {
    if (s->terms.size() != 1 || s->constant != 0) continue;
    factor = wrapping_mul(factor, s->terms[0].coef);
    s->terms[0].coef = 1;
  }
  Expr x = to_expr(a);
  Expr y = to_expr(b);
  if (compare_exprs(x, y) > 0) std::swap(x, y);
  Sum out;
  out.append(equal(x, e.arg(0)) && equal(y, e.arg(1)) ? e : x * y, factor);
  return out;
}

Sum Simplifier::division(const Expr& e) {
  const Sum s = simplified_sum(e.arg(0));
  const Sum by = simplified_sum(e.arg(1));
  Sum out;
  if (by.is_constant()) {
    out = e.op() == Op::kFloorDiv ? divide(s, by.constant) : modulo(s, by.constant);
  } else {
    const Interval range = bounds(by);
    const Interval dividend = bounds(s);
    const bool inside = range.lo > 0 && dividend.lo >= 0 && dividend.hi < range.lo;  // 0 <= a < b
    if (inside) return e.op() == Op::kFloorDiv ? Sum() : s;
    out.append(binary(e.op(), to_expr(s), to_expr(by)), 1);
  }
  // The same node again when nothing changed.
  if (out.terms.size() == 1 && out.constant == 0 && out.terms[0].coef == 1 && equal(out.terms[0].atom, e))
    out.terms[0].atom = e;
  recombine(out);
  return out;
}

// Scalar i64 nodes that no sum and no division is; memoised, as their operands may be large and shared.
Expr Simplifier::other_index_node(const Expr& e) {
  if (const auto it = done_.find(&*e); it != done_.end()) return it->second.second;
  const bool orders = e.op() == Op::kMin || e.op() == Op::kMax;
  const Expr simple = orders ? min_max(e) : e.op() == Op::kDiv ? truncated_division(e) : any_node(e);
  return remember(e, simple);
}

Expr Simplifier::min_max(const Expr& e) {
  const bool is_min = e.op() == Op::kMin;
  Expr a = simplify(e.arg(0));
  Expr b = simplify(e.arg(1));
  const Sum sa = as_sum(a);
  const Sum sb = as_sum(b);
  if (is_exact(sa) && is_exact(sb)) {
    const Interval difference = bounds_by_cases(sum_of(sa, sb, -1));
    if (difference.hi <= 0) return is_min ? a : b;
    if (difference.lo >= 0) return is_min ? b : a;
  }
  if (equal(a, b)) return a;
  // min(min(x, c), d) with constants c, d.
  if (a.op() == Op::kIntImm) std::swap(a, b);
  if (a.op() == e.op() && b.op() == Op::kIntImm && a.arg(1).op() == Op::kIntImm) {
    const int64_t c = a.arg(1)->value;
    return binary(e.op(), a.arg(0), int_imm(is_min ? std::min(c, b->value) : std::max(c, b->value)));
  }
  if (b.op() != Op::kIntImm && compare_exprs(a, b) > 0) std::swap(a, b);
  return binary(e.op(), a, b);
}

Expr Simplifier::truncated_division(const Expr& e) {
  const Expr simple = with_simplified_args(e);
  if (simple.op() != Op::kDiv) return simple;
  const bool rounds_alike = bounds(simple.arg(0)).lo >= 0 && bounds(simple.arg(1)).lo > 0;
  return rounds_alike ? simplify(floor_div(simple.arg(0), simple.arg(1))) : known_value(simple);
}

// ---- Any type.

Expr Simplifier::select_node(const Expr& e) {
  const Expr condition = simplify(e.arg(0));
  if (condition.is_int(1)) return simplify(e.arg(1));
  if (condition.is_int(0)) return simplify(e.arg(2));
  if (condition.op() == Op::kBroadcast && condition.arg(0).op() == Op::kIntImm)
    return simplify(e.arg(condition.arg(0)->value ? 1 : 2));
  const auto branch = [&](size_t index, int64_t value) {
    std::vector<NamedInterval> known = facts(condition, value);
    if (known.empty()) return simplify(e.arg(index));
    return Simplifier(*this, std::move(known)).simplify(e.arg(index));
  };
  const Expr then = branch(1, 1);
  const Expr otherwise = branch(2, 0);
  if (equal(then, otherwise)) return then;
  if (then.is_int(1) && otherwise.is_int(0) && e.type().is_bool() && !e.type().is_vector()) return condition;
  return with_args(e, {condition, then, otherwise});
}

Expr Simplifier::load_node(const Expr& e) {
  const Expr simple = with_simplified_args(e);
  if (!simple->predicated) return simple;
  Expr predicate = simple->args.back();
  if (predicate.op() == Op::kBroadcast) predicate = predicate.arg(0);
  if (predicate.op() != Op::kIntImm) return simple;
  if (predicate->value == 0) return imm(e.type(), 0);
  // A load is as wide as its indices: an always true vector predicate over scalar indices leaves one broadcast element.
  std::vector<Expr> indices(simple->args.begin(), simple->args.end() - 1);
  return broadcast(load(e->name, e.type().element(), std::move(indices)), e.type().lanes());
}

Expr Simplifier::cast_node(const Expr& e) {
  const Expr simple = with_simplified_args(e);
  if (simple.op() != Op::kCast) return simple;
  const Expr& x = simple.arg(0);
  const Expr& scalar = x.op() == Op::kBroadcast ? x.arg(0) : x;
  if (const Expr folded = fold_cast(e.type().element(), scalar)) return broadcast(folded, e.type().lanes());
  // i64 -> i32 -> i64 of what fits.
  if (x.op() == Op::kCast && x.arg(0).type() == e.type() && e.type().is_int() && x.type().is_int()) {
    const Interval inner = bounds(x.arg(0));
    const int bits = x.type().bits() - (x.type().is_signed_int() ? 1 : 0);
    const bool fits = bits < 62 && inner.hi < (int64_t{1} << bits) &&
                      inner.lo >= (x.type().is_signed_int() ? -(int64_t{1} << bits) : 0);
    if (fits) return x.arg(0);
  }
  return e.type().is_float() ? simple : known_value(simple);
}

// Only what keeps every bit for every operand: x*1, x/1, x - 0, x + -0.
Expr Simplifier::float_node(const Expr& e) {
  const Expr simple = with_simplified_args(e);
  switch (simple.op()) {
    case Op::kMul:
      if (is_float_bits(simple.arg(0), 1)) return simple.arg(1);
      return is_float_bits(simple.arg(1), 1) ? simple.arg(0) : simple;
    case Op::kDiv:
      return is_float_bits(simple.arg(1), 1) ? simple.arg(0) : simple;
    case Op::kSub:
      return is_float_bits(simple.arg(1), 0.0) ? simple.arg(0) : simple;
    case Op::kAdd:
      if (is_float_bits(simple.arg(0), -0.0)) return simple.arg(1);
      return is_float_bits(simple.arg(1), -0.0) ? simple.arg(0) : simple;
    default:
      return simple;
  }
}

// Integers that wrap at less than 64 bits, bools outside of conditions, and i64 nodes such as shifts: known values
// only.
Expr Simplifier::narrow_node(const Expr& e) {
  const Expr simple = with_simplified_args(e);
  if (simple.type().is_vector()) return simple;
  if (simple.op() == Op::kExtract && simple.arg(0).op() == Op::kRamp) {
    return simplify(simple.arg(0).arg(0) + simple.arg(0).arg(1) * int_imm(simple->value, simple.type()));
  }
  const bool keeps_equal_lanes =
      simple.op() >= Op::kReduceMin && simple.op() <= Op::kReduceOr && simple.op() != Op::kReduceMul;
  if (keeps_equal_lanes && simple.arg(0).op() == Op::kBroadcast) return simple.arg(0).arg(0);
  return known_value(simple);
}

// A node with simplified operands that its bounds or a neutral operand decide.
Expr Simplifier::known_value(const Expr& simple) {
  if (simple.type().is_vector() || simple.type().is_float() || simple.op() == Op::kIntImm) return simple;
  const Interval range = bounds(simple);
  if (range.is_point() && is_finite(range)) return int_imm(range.lo, simple.type());
  if (simple->args.size() != 2 || simple.type().is_bool()) return simple;
  using enum Op;
  constexpr Op kZeroIsNeutral[] = {kAdd, kSub, kShiftLeft, kShiftRight, kOr, kXor};
  constexpr Op kOneIsNeutral[] = {kMul, kDiv, kFloorDiv};
  const bool neutral = (simple.arg(1).is_int(0) && index_of(kZeroIsNeutral, simple.op()) >= 0) ||
                       (simple.arg(1).is_int(1) && index_of(kOneIsNeutral, simple.op()) >= 0);
  return neutral ? simple.arg(0) : simple;
}

}  // namespace tw
