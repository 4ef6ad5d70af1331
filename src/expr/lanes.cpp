// Vector index arithmetic: a vector is simplified as the scalar expression of one lane, whose number is a variable.
#include <fmt/format.h>

#include <algorithm>

#include "expr/scalar.h"
#include "expr/simplifier.h"

namespace tw {
namespace {

constexpr const char* kLane = "$lane";

bool depends_on_lane(const Expr& e) {
  if (e.is_var()) return e->name.starts_with('$');
  return std::ranges::any_of(e->args, depends_on_lane);
}

bool is_lane(const Expr& e) { return e.is_var() && e->name == kLane; }

// Vector expressions that are no arithmetic on lanes (loads, casts) and the variables that stand for them.
class Leaves {
 public:
  Expr variable_of(const Expr& leaf) {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (equal(leaves_[i], leaf)) return var(name(i), leaf.type().element());
    }
    leaves_.push_back(leaf);
    return var(name(leaves_.size() - 1), leaf.type().element());
  }
  void add(const Expr& leaf) { leaves_.push_back(leaf); }
  const Expr* find(const std::string& wanted) const {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (name(i) == wanted) return &leaves_[i];
    }
    return nullptr;
  }
  static std::string name(size_t i) { return fmt::format("$leaf{}", i); }
  const std::vector<Expr>& all() const { return leaves_; }

 private:
  std::vector<Expr> leaves_;
};

bool is_lane_arithmetic(const Expr& e) {
  if (e.type().scalar() != ScalarType::kI64 && !e.type().is_bool()) return false;
  if (e.op() == Op::kSelect || e.op() == Op::kNeg) return true;
  if (e.op() >= Op::kAdd && e.op() <= Op::kMax) return !e.type().is_bool();
  if (e.op() == Op::kAnd || e.op() == Op::kOr || e.op() == Op::kNot) return e.type().is_bool();
  return is_comparison(e.op()) && e.arg(0).type().scalar() == ScalarType::kI64;
}

// The expression of lane $lane.
Expr narrow(const Expr& e, Leaves& leaves) {
  if (!e.type().is_vector()) return e;
  if (e.op() == Op::kBroadcast) return e.arg(0);
  if (e.op() == Op::kRamp && e.type().scalar() == ScalarType::kI64) return e.arg(0) + e.arg(1) * var(kLane);
  if (!is_lane_arithmetic(e)) return leaves.variable_of(e);
  return with_args(e, mapped(e->args, [&](const Expr& x) { return narrow(x, leaves); }));
}

// The vector of which `e` is lane $lane: the inverse of narrow.
class Widener {
 public:
  Widener(const Leaves& leaves, int lanes) : leaves_(leaves), lanes_(lanes) {}

  Expr widen(const Expr& e) const {
    if (!depends_on_lane(e)) return broadcast(e, lanes_);
    if (is_lane(e)) return ramp(0, 1, lanes_);
    if (e.is_var()) return *leaves_.find(e->name);
    const Op op = e.op();
    if (op == Op::kAdd || op == Op::kSub || op == Op::kNeg || op == Op::kMul) return widen_sum(as_sum(e));
    const auto of_lane = [&](const Expr& x) { return op == Op::kSelect && !depends_on_lane(x) ? x : widen(x); };
    return with_args(e, mapped(e->args, of_lane));
  }

 private:
  // base + stride * lane becomes one ramp, the other terms that differ by lane are added to it.
  Expr widen_sum(const Sum& s) const {
    Sum base = constant_sum(s.constant);
    Sum stride;
    std::vector<Term> others;
    for (const Term& t : s.terms) {
      const bool product = t.atom.op() == Op::kMul;
      if (!depends_on_lane(t.atom)) {
        base.append(t.atom, t.coef);
      } else if (is_lane(t.atom)) {
        stride.constant = t.coef;
      } else if (product && is_lane(t.atom.arg(0)) && !depends_on_lane(t.atom.arg(1))) {
        stride.append(as_sum(t.atom.arg(1)), t.coef);
      } else if (product && is_lane(t.atom.arg(1)) && !depends_on_lane(t.atom.arg(0))) {
        stride.append(as_sum(t.atom.arg(0)), t.coef);
      } else {
        others.push_back(t);
      }
    }
    base.normalise();
    stride.normalise();
    const Expr step = to_expr(stride);
    Expr out = step.is_int(0) ? broadcast(to_expr(base), lanes_) : ramp(to_expr(base), step, lanes_);
    if (step.is_int(0) && base.terms.empty() && base.constant == 0) out = Expr();
    for (const Term& t : others) {
      const Expr term = scaled_term(t);
      out = out ? out + term : term;
    }
    return out;
  }

  Expr scaled_term(const Term& t) const {
    Expr x;
    if (t.atom.op() == Op::kMul) {
      x = widen(t.atom.arg(0)) * widen(t.atom.arg(1));
    } else {
      x = widen(t.atom);
    }
    return t.coef == 1 ? x : x * broadcast(int_imm(t.coef), lanes_);
  }

  const Leaves& leaves_;
  int lanes_;
};

}  // namespace

Expr Simplifier::vector_node(const Expr& e) {
  if (!is_lane_arithmetic(e)) return with_simplified_args(e);
  Leaves leaves;
  const Expr scalar = narrow(e, leaves);
  const int lanes = e.type().lanes();
  std::vector<NamedInterval> known = {{kLane, {0, lanes - 1}}};
  Leaves simple_leaves;
  for (size_t i = 0; i < leaves.all().size(); ++i) {
    known.emplace_back(Leaves::name(i), bounds(leaves.all()[i]));
    simple_leaves.add(simplify(leaves.all()[i]));
  }
  const Expr simple = Simplifier(*this, std::move(known)).simplify(scalar);
  return Widener(simple_leaves, lanes).widen(simple);
}

}  // namespace tw
