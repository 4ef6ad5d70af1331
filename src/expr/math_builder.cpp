#include "expr/math_builder.h"

#include <algorithm>
#include <limits>

namespace tw {
namespace {

// One element that has no index, or always the same, is there whatever the conditions say.
bool is_guarded_load(const Expr& e) {
  return e.op() == Op::kLoad && !std::ranges::all_of(e->args, [](const Expr& x) { return x.op() == Op::kIntImm; });
}

bool holds_guarded_load(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || is_guarded_load(x); });
  return found;
}

class SharingRewriter {
 public:
  using Rewrite = std::function<Expr(const Expr&, const Share&)>;

  SharingRewriter(const Share& share, const Rewrite& rewrite) : rewrite_(rewrite) {
    if (share) share_ = [this, &share](const Expr& e) { return share(holds_guarded_load(e) ? guarded(e) : e); };
  }

  Expr rewrite(const Expr& e) {
    if (e->args.empty()) return e;
    for (const Branch& around : branches_) {
      if (const auto it = around.done.find(&*e); it != around.done.end()) return it->second;
    }
    std::vector<Expr> args;
    for (size_t i = 0; i < e->args.size(); ++i) {
      const bool is_branch = e.op() == Op::kSelect && i > 0;
      if (is_branch) branches_.push_back({args[0], i == 1, {}});
      args.push_back(rewrite(e.arg(i)));
      if (is_branch) branches_.pop_back();
    }
    const Expr result = rewrite_(with_args(e, std::move(args)), share_);
    branches_.back().done.emplace(&*e, result);
    return result;
  }

 private:
  struct Branch {
    Expr condition;
    bool holds = true;  // whether the condition does in here
    std::unordered_map<const ExprNode*, Expr> done;
  };

  // A value that is asked for before all conditions are: its loads stay behind those of its branches.
  Expr guarded(Expr e) const {
    const Expr zero = imm(e.type(), 0);
    for (size_t b = branches_.size(); b-- > 1;) {
      const Expr& c = branches_[b].condition;
      const bool in_any_lane = c.type().lanes() > e.type().lanes();
      const Expr asked = branches_[b].holds ? c : unary(Op::kNot, c);
      e = select(in_any_lane ? reduce_lanes(Op::kReduceOr, asked) : asked, e, zero);
    }
    return e;
  }

  const Rewrite& rewrite_;
  Share share_;
  std::vector<Branch> branches_ = {{}};  // the whole and the branches around what is rewritten
};

}  // namespace

Expr rewrite_sharing(const Expr& e, const Share& share, const std::function<Expr(const Expr&, const Share&)>& rewrite) {
  return SharingRewriter(share, rewrite).rewrite(e);
}

Expr MathBuilder::share(const Expr& e) const {
  const bool leaf = e.is_var() || e.op() == Op::kFloatImm || e.op() == Op::kIntImm;
  return leaf || !share_ ? e : share_(e);
}

// Not of values that stand behind a guard: the condition is asked before.
bool MathBuilder::assumes(const Expr& condition) const {
  if (!usual_ || holds_guarded_load(condition)) return false;
  usual_(condition);
  return true;
}

Expr MathBuilder::polynomial(const Expr& x, std::initializer_list<double> coefficients) const {
  const double* c = coefficients.end();
  Expr sum = number(*--c);
  while (c != coefficients.begin()) sum = fma(sum, x, number(*--c));
  return sum;
}

Expr MathBuilder::flip_sign(const Expr& x, const Expr& sign) const {
  const int64_t mask = is_f64() ? INT64_MIN : INT32_MIN;
  return from_bits(bit_xor(bits(x), bit_and(bits(sign), integer(mask))));
}

Expr sigmoid_from(const MathBuilder& m, const Expr& x, const Expr& exp_of_minus_magnitude) {
  const Expr e = m.share(exp_of_minus_magnitude);
  return select(x < m.number(0), e, m.number(1)) / (e + m.number(1));
}

Expr logarithm_from(const MathBuilder& m, const Expr& x, const Expr& regular) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Expr zero = m.number(0);
  const Expr not_above = select(x == zero, m.number(-kInfinity), m.number(std::numeric_limits<double>::quiet_NaN()));
  const Expr infinite_or_nan = select(x <= zero, not_above, x);
  return select(zero < x && x < m.number(kInfinity), regular, infinite_or_nan);
}

Expr pick_sine(const MathBuilder& m, const Expr& quadrant, const Expr& sine, const Expr& cosine) {
  const Expr one = m.integer(1);
  const Expr value = select(bit_and(quadrant, one) == m.integer(0), sine, cosine);
  const int to_sign_bit = m.is_f64() ? 62 : 30;
  return m.flip_sign(value, m.from_bits(shift_left(quadrant, m.integer(to_sign_bit))));
}

}  // namespace tw
