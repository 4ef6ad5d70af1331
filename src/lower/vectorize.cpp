// Vectorised loops become vector statements.
#include <algorithm>

#include "expr/scalar.h"
#include "lower/passes.h"
#include "support/join.h"
#include "te/te.h"

namespace tw::lower {
namespace {

// The reduction over lanes by an operation.
Op lane_reduction(Op op) {
  for (const Op reduce : {Op::kReduceAdd, Op::kReduceMul, Op::kReduceMin, Op::kReduceMax, Op::kReduceAnd}) {
    if (lane_operation(reduce) == op) return reduce;
  }
  return Op::kReduceOr;
}

class Vectorizer {
 public:
  Vectorizer(std::string name, int lanes) : lanes_(lanes) {
    values_.emplace(std::move(name), ramp(int_imm(0), int_imm(1), lanes));
  }

  Stmts run(const Stmts& stmts, const Expr& predicate) {
    return mapped(stmts, [&](const Stmt& s) { return statement(s, predicate); });
  }

 private:
  Stmt statement(const Stmt& s, const Expr& predicate) {
    switch (s->kind) {
      case StmtKind::kStore:
        return store(s, predicate);
      case StmtKind::kFor:
        return loop::make_for_like(s, s->var, s->extent, run(s->body, predicate));
      case StmtKind::kAllocate:
        return loop::make_allocate(s->allocated, run(s->body, predicate));
      case StmtKind::kBlock:
        return loop::make_block(run(s->body, predicate));
      case StmtKind::kPrefetch:
        return s;
      case StmtKind::kLet:
        return let(s, predicate);
      case StmtKind::kIf:
        return branch(s, predicate);
    }
    return s;
  }

  Expr widen(const Expr& e) const { return substitute(e, values_); }

  Stmt let(const Stmt& s, const Expr& predicate) {
    const Expr value = guarded(widen(s->value), predicate);
    if (value.type().is_vector()) values_[s->var] = var(s->var, value.type());
    return loop::make_let(s->var, value, run(s->body, predicate));
  }

  Stmt branch(const Stmt& s, const Expr& predicate) {
    const Expr condition = widen(s->predicate);
    if (!condition.type().is_vector())
      return loop::make_if(condition, run(s->body, predicate), run(s->otherwise, predicate));
    const Expr inside = predicate ? predicate && condition : condition;
    Stmts both = run(s->body, inside);
    const Expr outside = predicate ? predicate && logical_not(condition) : logical_not(condition);
    append(both, run(s->otherwise, outside));
    return loop::make_block(std::move(both));
  }

  // Loads that a predicate protects must not touch lanes where it is false.
  static Expr guarded(const Expr& e, const Expr& predicate) {
    if (!predicate) return e;
    return rewrite(e, [&](const Expr& x) -> Expr {
      if (x.op() != Op::kLoad || !x.type().is_vector() || x->predicated) return Expr();
      return load_if(x->name, x.type().element(), x->args, predicate);
    });
  }

  Stmt store(const Stmt& s, const Expr& predicate) const {
    const std::vector<Expr> indices = mapped(s->indices, [&](const Expr& index) { return widen(index); });
    const bool moves = std::ranges::any_of(indices, [](const Expr& index) { return index.type().is_vector(); });
    Expr value = widen(s->value);
    Expr condition = s->predicate ? widen(s->predicate) : Expr();
    if (predicate) condition = condition ? condition && predicate : predicate;
    if (!moves) return still_store(s, indices, value, condition);
    value = broadcast(value, lanes_);
    if (condition) condition = broadcast(condition, lanes_);
    return loop::make_store(s->buffer, indices, guarded(value, condition), condition);
  }

  // A store to one element by all lanes. acc = acc op x becomes acc = acc op (reduction of x over the lanes where the
  // condition holds); any other value must be the same in all lanes.
  Stmt still_store(const Stmt& s, const std::vector<Expr>& indices, const Expr& value, const Expr& condition) const {
    if (value.op() == Op::kFma && is_accumulator(value.arg(2), s->buffer)) {
      return combine(s, indices, {Op::kAdd, value.arg(2), value.arg(0) * value.arg(1)}, condition);
    }
    const bool combines = te::combiner_of(value.op()).has_value();
    if (combines && is_accumulator(value.arg(0), s->buffer))
      return combine(s, indices, {value.op(), value.arg(0), value.arg(1)}, condition);
    if (combines && is_accumulator(value.arg(1), s->buffer))
      return combine(s, indices, {value.op(), value.arg(1), value.arg(0)}, condition);
    TW_CHECK(!value.type().is_vector(), "{} is written by all lanes", s->buffer);
    return loop::make_store(s->buffer, indices, value, condition ? reduce_lanes(Op::kReduceOr, condition) : condition);
  }

  struct Combination {
    Op op;
    Expr accumulator;
    Expr term;
  };

  Stmt combine(const Stmt& s, const std::vector<Expr>& indices, const Combination& c, const Expr& condition) const {
    const bool by_lane = condition && condition.type().is_vector();
    Expr term = broadcast(c.term, lanes_);
    if (by_lane)
      term = select(condition, guarded(term, condition),
                    broadcast(te::identity_of(*te::combiner_of(c.op), term.type().element()), lanes_));
    return loop::make_store(s->buffer, indices,
                            binary(c.op, scalar(c.accumulator), reduce_lanes(lane_reduction(c.op), term)),
                            by_lane ? Expr() : condition);
  }

  static Expr scalar(const Expr& e) { return e.op() == Op::kBroadcast ? e.arg(0) : e; }

  static bool is_accumulator(const Expr& e, const std::string& buffer) {
    const Expr one = scalar(e);
    return one.op() == Op::kLoad && one->name == buffer && !one.type().is_vector();
  }

  VarMap values_;
  int lanes_;
};

Stmts vectorize_loop(const Stmt& s) {
  if (s->kind != StmtKind::kFor || s->for_kind != loop::ForKind::kVectorized) return {s};
  if (s->extent == 1) return loop::substitute(s->body, {{s->var, int_imm(0)}});
  return Vectorizer(s->var, static_cast<int>(s->extent)).run(s->body, Expr());
}

}  // namespace

loop::Program vectorize(const loop::Program& program, const LowerOptions&) {
  const loop::Rewriter rewriter{.expr = {}, .stmt = vectorize_loop};
  return with_bodies(program, [&](const loop::Kernel& kernel) { return loop::rewrite(kernel.body, rewriter); });
}

}  // namespace tw::lower
