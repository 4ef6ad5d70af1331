// Unrolled loops become copies of their body.
#include "lower/passes.h"

namespace tw::lower {
namespace {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;

// Loops and lets inside a copy need names of their own.
Stmts rename(const Stmts& stmts, const std::string& suffix) {
  loop::Rewriter rewriter;
  rewriter.stmt = [&](const Stmt& s) -> Stmts {
    if (s->kind == StmtKind::kFor) {
      return {loop::make_for(s->var + suffix, s->extent, s->for_kind,
                             loop::substitute(s->body, {{s->var, var(s->var + suffix)}}))};
    }
    if (s->kind == StmtKind::kLet) {
      return {loop::make_let(s->var + suffix, s->value,
                             loop::substitute(s->body, {{s->var, var(s->var + suffix, s->value.type())}}))};
    }
    return {s};
  };
  return loop::rewrite(stmts, rewriter);
}

Stmts unroll_loop(const Stmt& s) {
  if (s->kind != StmtKind::kFor || s->for_kind != loop::ForKind::kUnrolled) return {s};
  Stmts copies;
  for (int64_t i = 0; i < s->extent; ++i) {
    Stmts copy = loop::substitute(s->body, {{s->var, int_imm(i)}});
    for (Stmt& c : rename(copy, "u" + std::to_string(i))) copies.push_back(std::move(c));
  }
  return copies;
}

}  // namespace

loop::Program unroll(const loop::Program& program, const LowerOptions&) {
  loop::Program out = program;
  loop::Rewriter rewriter;
  rewriter.stmt = unroll_loop;
  for (loop::Kernel& kernel : out.kernels) kernel.body = loop::rewrite(kernel.body, rewriter);
  return out;
}

}  // namespace tw::lower
