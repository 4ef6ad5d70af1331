#include "lower/simplify.h"

#include "lower/passes.h"
#include "support/join.h"

namespace tw::lower {
namespace {

// The part of a variable's range in which `condition`, of the form `v < c` or `c <= v`, holds; all of it otherwise.
struct Refinement {
  std::string name;  // empty: nothing is learnt
  Interval then;
  Interval otherwise;
};

Refinement refine(const Expr& condition, const Analyzer& analyzer) {
  if (condition.type().is_vector() || (condition.op() != Op::kLt && condition.op() != Op::kLe)) return {};
  const Expr& a = condition.arg(0);
  const Expr& b = condition.arg(1);
  const int64_t strict = condition.op() == Op::kLt ? 1 : 0;
  if (a.is_var() && a.type() == DataType::i64() && b.op() == Op::kIntImm) {
    const Interval all = analyzer.bounds(a);
    const int64_t last = b->value - strict;
    return {a->name, {all.lo, std::min(all.hi, last)}, {std::max(all.lo, last + 1), all.hi}};
  }
  if (b.is_var() && b.type() == DataType::i64() && a.op() == Op::kIntImm) {
    const Interval all = analyzer.bounds(b);
    const int64_t first = a->value + strict;
    return {b->name, {std::max(all.lo, first), all.hi}, {all.lo, std::min(all.hi, first - 1)}};
  }
  return {};
}

bool is_empty(const Interval& range) { return range.lo > range.hi; }

Stmts simplify_branch(const Stmts& body, const std::string& name, Interval range, Analyzer& analyzer) {
  if (name.empty()) return simplify_stmts(body, analyzer);
  if (is_empty(range)) return {};
  return with_range(analyzer, name, range, [&] { return simplify_stmts(body, analyzer); });
}

Stmts simplify_if(const Stmt& s, Analyzer& analyzer) {
  const Expr condition = analyzer.simplify(s->predicate);
  if (condition.is_int(1)) return simplify_stmts(s->body, analyzer);
  if (condition.is_int(0)) return simplify_stmts(s->otherwise, analyzer);
  const Refinement known = refine(condition, analyzer);
  Stmts then = simplify_branch(s->body, known.name, known.then, analyzer);
  Stmts otherwise = simplify_branch(s->otherwise, known.name, known.otherwise, analyzer);
  if (then.empty() && otherwise.empty()) return {};
  return {loop::make_if(condition, std::move(then), std::move(otherwise))};
}

Stmts simplify_for(const Stmt& s, Analyzer& analyzer) {
  if (s->extent <= 0) return {};
  // One thread is not all of them, and copies ahead belong to a loop.
  const bool stays = s->for_kind == loop::ForKind::kThreads || s->for_kind == loop::ForKind::kPipelined;
  if (s->extent == 1 && !stays) return simplify_stmts(loop::substitute(s->body, {{s->var, int_imm(0)}}), analyzer);
  Stmts body = with_range(analyzer, s->var, {0, s->extent - 1}, [&] { return simplify_stmts(s->body, analyzer); });
  if (body.empty()) return {};
  return {loop::make_for_like(s, s->var, s->extent, std::move(body))};
}

Stmts simplify_let(const Stmt& s, Analyzer& analyzer) {
  const Expr value = analyzer.simplify(s->value);
  if (value.op() == Op::kIntImm) return simplify_stmts(loop::substitute(s->body, {{s->var, value}}), analyzer);
  Stmts body;
  if (value.type() == DataType::i64()) {
    body = with_range(analyzer, s->var, analyzer.bounds(value), [&] { return simplify_stmts(s->body, analyzer); });
  } else {
    body = simplify_stmts(s->body, analyzer);
  }
  if (body.empty()) return {};
  return {loop::make_let(s->var, value, std::move(body))};
}

std::vector<Expr> simplify_all(const std::vector<Expr>& exprs, const Analyzer& analyzer) {
  return mapped(exprs, [&](const Expr& e) { return analyzer.simplify(e); });
}

Stmts simplify_store(const Stmt& s, const Analyzer& analyzer) {
  Expr predicate = s->predicate ? analyzer.simplify(s->predicate) : Expr();
  if (predicate && predicate.op() == Op::kBroadcast) predicate = predicate.arg(0);
  if (predicate && predicate.is_int(0)) return {};
  if (predicate && predicate.is_int(1)) predicate = Expr();
  if (predicate && predicate.type().lanes() != s->value.type().lanes())
    predicate = broadcast(predicate, s->value.type().lanes());
  return {loop::make_store(s->buffer, simplify_all(s->indices, analyzer), analyzer.simplify(s->value), predicate)};
}

Stmts simplify_stmt(const Stmt& s, Analyzer& analyzer) {
  switch (s->kind) {
    case StmtKind::kFor:
      return simplify_for(s, analyzer);
    case StmtKind::kLet:
      return simplify_let(s, analyzer);
    case StmtKind::kIf:
      return simplify_if(s, analyzer);
    case StmtKind::kStore:
      return simplify_store(s, analyzer);
    case StmtKind::kBlock:
      return simplify_stmts(s->body, analyzer);
    case StmtKind::kPrefetch:
      return {loop::make_prefetch(s->buffer, simplify_all(s->indices, analyzer), static_cast<int>(s->extent))};
    case StmtKind::kAllocate: {
      Stmts body = simplify_stmts(s->body, analyzer);
      if (body.empty()) return {};
      return {loop::make_allocate(s->allocated, std::move(body))};
    }
  }
  return {s};
}

}  // namespace

Stmts simplify_stmts(const Stmts& stmts, Analyzer& analyzer) {
  Stmts out;
  for (const Stmt& s : stmts) append(out, simplify_stmt(s, analyzer));
  return out;
}

loop::Program simplify(const loop::Program& program, const LowerOptions&) {
  loop::Program out = program;
  for (loop::Kernel& kernel : out.kernels) {
    if (kernel.tiles == 0) {
      // One tile that does nothing: the runtime runs at least one.
      kernel = {kernel.name, std::move(kernel.params), std::move(kernel.written), "", 1, 1, {}};
      continue;
    }
    Analyzer analyzer;
    if (!kernel.tile_var.empty()) analyzer.bind(kernel.tile_var, 0, kernel.tiles);
    kernel.body = simplify_stmts(kernel.body, analyzer);
  }
  return out;
}

}  // namespace tw::lower
