// Elementary functions, narrow floats and what a target lacks become arithmetic; what an expansion uses more than once
// is bound by a let.
#include "expr/expand.h"

#include <fmt/format.h>

#include "lower/passes.h"

namespace tw::lower {
namespace {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;
using Expansion = std::function<Expr(const Expr& e, const Share& share)>;

class Expander {
 public:
  Expander(Expansion expand, std::string prefix) : expand_(std::move(expand)), prefix_(std::move(prefix)) {}

  loop::Program run(const loop::Program& program) {
    loop::Program out = program;
    loop::Rewriter rewriter;
    rewriter.stmt = [this](const Stmt& s) { return statement(s); };
    for (loop::Kernel& kernel : out.kernels) {
      counter_ = 0;
      kernel.body = loop::rewrite(kernel.body, rewriter);
    }
    return out;
  }

 private:
  struct Binding {
    std::string name;
    Expr value;
  };

  Stmts statement(const Stmt& s) {
    std::vector<Binding> bindings;
    const Share share = [&](const Expr& value) {
      bindings.push_back({fmt::format("{}{}", prefix_, counter_++), value});
      return var(bindings.back().name, value.type());
    };
    const auto expanded = [&](const Expr& e) { return e ? expand_(e, share) : e; };
    Stmt out = s;
    if (s->kind == StmtKind::kStore) {
      const Expr value = expanded(s->value);
      if (value.same(s->value)) return {s};
      out = loop::make_store(s->buffer, s->indices, value, s->predicate);
    } else if (s->kind == StmtKind::kLet) {
      const Expr value = expanded(s->value);
      if (value.same(s->value)) return {s};
      out = loop::make_let(s->var, value, s->body);
    } else if (s->kind == StmtKind::kIf) {
      const Expr condition = expanded(s->predicate);
      if (condition.same(s->predicate)) return {s};
      out = loop::make_if(condition, s->body, s->otherwise);
    }
    for (size_t i = bindings.size(); i-- > 0;) out = loop::make_let(bindings[i].name, bindings[i].value, {out});
    return {out};
  }

  Expansion expand_;
  std::string prefix_;
  int counter_ = 0;
};

}  // namespace

loop::Program split_products(const loop::Program& program, const LowerOptions& options) {
  return options.has.fma ? program : Expander(tw::split_fma, "p").run(program);
}

loop::Program expand_functions(const loop::Program& program, const LowerOptions&) {
  return Expander(tw::expand_elementary, "f").run(program);
}

loop::Program expand_conversions(const loop::Program& program, const LowerOptions&) {
  return Expander(tw::expand_conversions, "h").run(program);
}

loop::Program expand_missing(const loop::Program& program, const LowerOptions& options) {
  if (options.has.fma && options.has.rounding) return program;
  const auto expand = [&](const Expr& e, const Share& share) { return tw::expand_missing(e, options.has, share); };
  return Expander(expand, "m").run(program);
}

}  // namespace tw::lower
