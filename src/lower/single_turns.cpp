// Loops of which one turn does something: that of a computed index. Reductions at computed indices
// (ops/indexed/scatter.cpp) say element by element which terms they take.
#include "expr/affine.h"
#include "lower/passes.h"
#include "lower/simplify.h"
#include "te/reads.h"

namespace tw::lower {
namespace {

// buffer[i] = buffer[i] + select(condition, x, 0): `condition` decides whether anything is added. A sum that begins
// with 0 is never -0, so that adding 0 changes nothing; nor do the neutral elements of products, minima and maxima.
struct Addition {
  Expr condition;
  Stmt store;  // of the sum where it holds
};

// Operands of integers are in any order.
std::optional<Addition> addition_of(const Stmt& s) {
  if (s->kind != StmtKind::kStore || s->predicate) return std::nullopt;
  const std::optional<te::CombinerKind> kind = te::combiner_of(s->value.op());
  if (!kind) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const Expr &sum = s->value.arg(side), &term = s->value.arg(1 - side);
    const bool adds =
        sum.op() == Op::kLoad && !sum->predicated && sum->name == s->buffer && sum->args.size() == s->indices.size() &&
        std::ranges::equal(sum->args, s->indices, [](const Expr& a, const Expr& b) { return equal(a, b); });
    if (!adds || term.op() != Op::kSelect || !equal(term.arg(2), te::identity_of(*kind, term.type()))) continue;
    return Addition{term.arg(0), loop::make_store(s->buffer, s->indices, binary(s->value.op(), sum, term.arg(1)))};
  }
  return std::nullopt;
}

class TurnFinder {
 public:
  explicit TurnFinder(const Stmt& nest) : nest_(nest) {}

  // The nest as its only turn, or nothing where it has no such condition.
  std::optional<Stmt> run() {
    Stmt inner = nest_;
    for (; inner->kind == StmtKind::kFor && is_plain(inner); inner = inner->body[0]) {
      loops_.push_back(inner);
      bound_.insert(inner->var);
    }
    const std::optional<Addition> addition = addition_of(inner);
    if (loops_.empty() || !addition || te::reads(addition->condition, inner->buffer)) return std::nullopt;
    take_apart(addition->condition);
    if (!turn_) return std::nullopt;
    return rebuilt(addition->store);
  }

 private:
  static bool is_plain(const Stmt& s) {
    return s->body.size() == 1 && (s->for_kind == loop::ForKind::kSerial || s->for_kind == loop::ForKind::kVectorized ||
                                   s->for_kind == loop::ForKind::kUnrolled);
  }

  // One part of the condition says which turn; the others stay.
  void take_apart(const Expr& e) {
    if (e.op() == Op::kAnd) {
      take_apart(e.arg(0));
      take_apart(e.arg(1));
    } else if (turn_ || !(turn_ = turn_of(e))) {
      rest_ = rest_ ? rest_ && e : e;
    }
  }

  // Of the outermost loop, where the condition is variable = something that no loop of the nest changes.
  std::optional<Expr> turn_of(const Expr& e) const {
    if (e.op() != Op::kEq || e.arg(0).type() != DataType::i64()) return std::nullopt;
    const std::string& name = loops_.front()->var;
    const Expr difference = e.arg(0) - e.arg(1);
    const auto factor = coefficient_of(difference, name);
    if (!factor || (*factor != 1 && *factor != -1)) return std::nullopt;
    bool changes = false;
    visit(difference,
          [&](const Expr& x) { changes = changes || (x.is_var() && x->name != name && bound_.contains(x->name)); });
    if (changes) return std::nullopt;
    const Expr others = substitute(difference, {{name, int_imm(0)}});
    return *factor == 1 ? -others : others;
  }

  Stmt rebuilt(Stmt body) const {
    if (rest_) body = loop::make_if(rest_, {body});
    for (size_t l = loops_.size(); l-- > 1;)
      body = loop::make_for_like(loops_[l], loops_[l]->var, loops_[l]->extent, {body});
    const Stmt& loop = loops_.front();
    const Expr turn = var(loop->var);
    body = loop::make_if(int_imm(0) <= turn && turn < int_imm(loop->extent), {body});
    return loop::make_let(loop->var, *turn_, {body});
  }

  const Stmt& nest_;
  std::vector<Stmt> loops_;
  std::set<std::string> bound_;
  std::optional<Expr> turn_;
  Expr rest_;
};

}  // namespace

loop::Program single_turns(const loop::Program& program, const LowerOptions&) {
  return with_bodies(program, [](const loop::Kernel& kernel) {
    const auto only_turn = [](const Stmt& s) -> Stmts {
      if (s->kind != StmtKind::kFor || s->for_kind != loop::ForKind::kSerial) return {s};
      const std::optional<Stmt> turn = TurnFinder(s).run();
      return {turn ? *turn : s};
    };
    return loop::rewrite(kernel.body, {{}, only_turn});
  });
}

}  // namespace tw::lower
