// Masks leave the turns that lie inside of what they keep.
#include <set>

#include "expr/analyzer.h"
#include "lower/passes.h"
#include "lower/simplify.h"
#include "support/join.h"

namespace tw::lower {
namespace {

class MaskParter {
 public:
  MaskParter(const loop::Kernel& kernel, Analyzer& ranges) : ranges_(ranges) {
    loop::visit(kernel.body, [&](const Stmt& s) {
      if (s->kind == StmtKind::kAllocate && s->allocated.scope == loop::Scope::kRegister)
        registers_.insert(s->allocated.name);
    });
    for (const loop::Buffer& p : kernel.params) params_.insert(p.name);
  }

  Stmts all(const Stmts& stmts, bool in_pipeline) {
    Stmts out;
    for (const Stmt& s : stmts) append(out, statement(s, in_pipeline));
    return out;
  }

 private:
  Stmts statement(const Stmt& s, bool in_pipeline) {
    if (s->kind == StmtKind::kFor && loop::is_thread_loop(s)) return in_pipeline ? parted(s) : Stmts{s};
    const auto inside = [&](bool pipelined) { return all(s->body, pipelined); };
    switch (s->kind) {
      case StmtKind::kFor: {
        const bool turns = in_pipeline || s->for_kind == loop::ForKind::kPipelined;
        return {loop::make_for_like(s, s->var, s->extent,
                                    with_range(ranges_, s->var, {0, s->extent - 1}, [&] { return inside(turns); }))};
      }
      case StmtKind::kLet:
        return {loop::make_let(s->var, s->value, with_range(ranges_, s->var, ranges_.bounds(s->value), [&] {
                                 return inside(in_pipeline);
                               }))};
      case StmtKind::kIf:
        return {loop::make_if(s->predicate, inside(in_pipeline), all(s->otherwise, in_pipeline))};
      case StmtKind::kAllocate:
        return {loop::make_allocate(s->allocated, inside(in_pipeline))};
      default:
        return {s};
    }
  }

  // The loops of threads, without the selects of those conditions that hold for all of them where they all hold.
  Stmts parted(const Stmt& nest) {
    std::set<std::string> inner;
    Analyzer ranges = ranges_;
    bool of_registers = true;
    loop::visit({nest}, [&](const Stmt& s) {
      if (s->kind == StmtKind::kFor) inner.insert(s->var), ranges.bind(s->var, 0, s->extent);
      of_registers = of_registers && (s->kind != StmtKind::kStore || registers_.contains(s->buffer));
    });
    std::vector<Expr> conditions, tests;
    loop::visit_exprs({nest}, [&](const Expr& whole) {
      tw::visit(whole, [&](const Expr& e) {
        const bool loads = e.op() == Op::kLoad;
        of_registers = of_registers && (!loads || registers_.contains(e->name) || params_.contains(e->name));
        if (e.op() != Op::kSelect || index_where(conditions, [&](const Expr& c) { return equal(c, e.arg(0)); }) >= 0)
          return;
        const Expr test = holds_for_all(e.arg(0), inner, ranges);
        if (test && test.op() != Op::kIntImm) {
          conditions.push_back(e.arg(0));
          tests.push_back(test);
        }
      });
    });
    if (!of_registers || tests.empty()) return {nest};
    Expr test = tests.front();
    for (size_t i = 1; i < tests.size(); ++i) test = ranges_.simplify(test && tests[i]);
    const auto without = [&](const Expr& e) -> Expr {
      const bool known =
          e.op() == Op::kSelect && index_where(conditions, [&](const Expr& c) { return equal(c, e.arg(0)); }) >= 0;
      return known ? e.arg(1) : Expr();
    };
    Stmts whole = loop::rewrite({nest}, {[&](const Expr& e) { return tw::rewrite(e, without); }, {}});
    return {loop::make_if(test, std::move(whole), renamed_copy({nest}, {}, "m"))};
  }

  // When `condition`, comparisons joined by "and", holds for all values of `inner`; null where that is not known.
  static Expr holds_for_all(const Expr& condition, const std::set<std::string>& inner, const Analyzer& ranges) {
    if (condition.op() == Op::kAnd) {
      const Expr a = holds_for_all(condition.arg(0), inner, ranges), b = holds_for_all(condition.arg(1), inner, ranges);
      return !a ? a : !b ? b : ranges.simplify(a && b);
    }
    const bool less = condition.op() == Op::kLt;
    if ((!less && condition.op() != Op::kLe) || condition.arg(0).type() != DataType::i64()) return {};
    const Expr least = least_over(inner, ranges.simplify(condition.arg(1) - condition.arg(0)), ranges);
    return least ? ranges.simplify(least >= int_imm(less ? 1 : 0)) : least;
  }

  Analyzer& ranges_;
  std::set<std::string> registers_, params_;
};

}  // namespace

loop::Program part_masks(const loop::Program& program, const LowerOptions&) {
  return with_bodies(program, [](const loop::Kernel& kernel) {
    Analyzer ranges;
    if (!kernel.tile_var.empty()) ranges.bind(kernel.tile_var, 0, kernel.tiles);
    return MaskParter(kernel, ranges).all(kernel.body, false);
  });
}

}  // namespace tw::lower
