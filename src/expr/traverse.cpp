// Traversals. An expression may be a graph whose nodes are shared (expanded functions are): each visits a node once.
#include <bit>
#include <cmath>
#include <unordered_set>

#include "expr/expr.h"
#include "support/join.h"

namespace tw {
namespace {

using NodeSet = std::unordered_set<const ExprNode*>;

void visit_once(const Expr& e, const std::function<void(const Expr&)>& f, NodeSet& seen) {
  if (!seen.insert(&*e).second) return;
  for (const Expr& arg : e->args) visit_once(arg, f, seen);
  f(e);
}

using Rewritten = std::unordered_map<const ExprNode*, Expr>;

Expr rewrite_once(const Expr& e, const std::function<Expr(const Expr&)>& f, Rewritten& done) {
  if (const auto it = done.find(&*e); it != done.end()) return it->second;
  const Expr updated = with_args(e, mapped(e->args, [&](const Expr& arg) { return rewrite_once(arg, f, done); }));
  const Expr replaced = f(updated);
  const Expr& result = replaced ? replaced : updated;
  done.emplace(&*e, result);
  return result;
}

// Not by rewrite(): what folds to a variable is a value, and no variable of e's.
Expr substitute_once(const Expr& e, const VarMap& values, Rewritten& done) {
  if (e.is_var()) return value_or(values, e->name, e);
  if (const auto it = done.find(&*e); it != done.end()) return it->second;
  auto args = mapped(e->args, [&](const Expr& arg) { return substitute_once(arg, values, done); });
  return done.emplace(&*e, with_args(e, std::move(args))).first->second;
}

bool uses_var_once(const Expr& e, const std::string& name, NodeSet& seen) {
  if (e.is_var()) return e->name == name;
  if (e->args.empty() || !seen.insert(&*e).second) return false;
  return std::ranges::any_of(e->args, [&](const Expr& arg) { return uses_var_once(arg, name, seen); });
}

// Floats compare by bits: -0.0 and 0.0 differ, a NaN equals itself.
bool same_label(const ExprNode& a, const ExprNode& b) {
  return a.op == b.op && a.type == b.type && a.value == b.value && a.predicated == b.predicated &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.args.size() == b.args.size() &&
         a.name == b.name;
}

// Structural equality. Pairs found equal are kept only once an expression turns out to be large: most are a few nodes.
class Equality {
 public:
  bool equal(const Expr& a, const Expr& b) {
    if (a.same(b)) return true;
    if (!a || !b || !same_label(*a, *b)) return false;
    const bool remember = ++steps_ > kSmall && !a->args.empty();
    if (remember) {
      const auto it = equal_to_.find(&*a);
      if (it != equal_to_.end() && it->second == &*b) return true;
    }
    for (size_t i = 0; i < a->args.size(); ++i) {
      if (!equal(a.arg(i), b.arg(i))) return false;
    }
    if (remember) equal_to_[&*a] = &*b;
    return true;
  }

 private:
  static constexpr size_t kSmall = 200;
  size_t steps_ = 0;
  std::unordered_map<const ExprNode*, const ExprNode*> equal_to_;
};

}  // namespace

void visit(const Expr& e, const std::function<void(const Expr&)>& f) {
  NodeSet seen;
  visit_once(e, f, seen);
}

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& f) {
  Rewritten done;
  return rewrite_once(e, f, done);
}

Expr substitute(const Expr& e, const VarMap& values) {
  Rewritten done;
  return substitute_once(e, values, done);
}

bool uses_var(const Expr& e, const std::string& name) {
  NodeSet seen;
  return uses_var_once(e, name, seen);
}

bool is_zero(const Expr& e) {
  const Expr& one = e.op() == Op::kBroadcast ? e.arg(0) : e;
  return one.is_int(0) || (one.op() == Op::kFloatImm && one->number == 0 && !std::signbit(one->number));
}

bool equal(const Expr& a, const Expr& b) { return Equality().equal(a, b); }

}  // namespace tw
