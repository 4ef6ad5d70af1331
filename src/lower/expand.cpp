// Elementary functions, narrow floats and what a target lacks become arithmetic; what an expansion uses more than once
// is bound by a let.
#include "expr/expand.h"

#include <fmt/format.h>

#include "lower/passes.h"

namespace tw::lower {
namespace {

using Expansion = std::function<Expr(const Expr& e, const Share& share, const Usual& usual)>;

// An expansion without usual operands: right for all.
template <typename Expand>
Expansion for_all(Expand expand) {
  return [expand](const Expr& e, const Share& share, const Usual&) { return expand(e, share); };
}

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
  struct Expanded {
    Expr value;
    std::vector<Binding> bindings;
    std::vector<Expr> conditions;  // where the value is right
  };
  enum class Operands : uint8_t { kAny, kUsual };

  Expanded expand(const Expr& e, Operands operands) {
    Expanded out;
    const Share share = [&](const Expr& value) {
      out.bindings.push_back({fmt::format("{}{}", prefix_, counter_++), value});
      return var(out.bindings.back().name, value.type());
    };
    const Usual usual = [&](const Expr& condition) { out.conditions.push_back(condition); };
    out.value = e ? expand_(e, share, operands == Operands::kUsual ? usual : Usual()) : e;
    return out;
  }

  static Stmts bind(const std::vector<Binding>& bindings, Stmt inner) {
    for (size_t i = bindings.size(); i-- > 0;) inner = loop::make_let(bindings[i].name, bindings[i].value, {inner});
    return {inner};
  }

  Stmts statement(const Stmt& s) {
    if (s->kind == StmtKind::kStore) return store(s, Operands::kUsual);
    const bool is_let = s->kind == StmtKind::kLet;
    if (!is_let && s->kind != StmtKind::kIf) return {s};
    const Expr& old = is_let ? s->value : s->predicate;
    const Expanded e = expand(old, Operands::kAny);
    if (e.value.same(old)) return {s};
    return bind(e.bindings,
                is_let ? loop::make_let(s->var, e.value, s->body) : loop::make_if(e.value, s->body, s->otherwise));
  }

  // Where the expansion is for usual operands, a branch asks for them, and has another one for all others.
  Stmts store(const Stmt& s, Operands operands) {
    const Expanded e = expand(s->value, operands);
    if (e.value.same(s->value)) return {s};
    const Stmt plain = loop::make_store(s->buffer, s->indices, e.value, s->predicate);
    if (e.conditions.empty()) return bind(e.bindings, plain);
    return bind(e.bindings, loop::make_if(in_all_lanes(e.conditions), {plain}, store(s, Operands::kAny)));
  }

  static Expr in_all_lanes(const std::vector<Expr>& conditions) {
    Expr all;
    for (const Expr& c : conditions) {
      const Expr one = c.type().lanes() > 1 ? reduce_lanes(Op::kReduceAnd, c) : c;
      all = all ? all && one : one;
    }
    return all;
  }

  Expansion expand_;
  std::string prefix_;
  int counter_ = 0;
};

}  // namespace

loop::Program split_products(const loop::Program& program, const LowerOptions& options) {
  return options.has.fma ? program : Expander(for_all(tw::split_fma), "p").run(program);
}

loop::Program expand_functions(const loop::Program& program, const LowerOptions&) {
  return Expander(tw::expand_elementary, "f").run(program);
}

loop::Program expand_conversions(const loop::Program& program, const LowerOptions& options) {
  const auto expand = [&](const Expr& e, const Share& share) { return tw::expand_conversions(e, options.has, share); };
  return Expander(for_all(expand), "h").run(program);
}

loop::Program expand_missing(const loop::Program& program, const LowerOptions& options) {
  if (options.has.fma && options.has.rounding) return program;
  const auto expand = [&](const Expr& e, const Share& share) { return tw::expand_missing(e, options.has, share); };
  return Expander(for_all(expand), "m").run(program);
}

}  // namespace tw::lower
