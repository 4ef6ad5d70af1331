// Elementary functions, narrow floats and what a target lacks become arithmetic; what an expansion uses more than once
// is bound by a let.
#include "expr/expand.h"

#include <algorithm>
#include <array>
#include <set>

#include "expr/elementary.h"
#include "expr/scalar.h"
#include "lower/passes.h"

namespace tw::lower {
namespace {

using Expansion = std::function<Expr(const Expr& e, const Share& share, const Usual& usual)>;

// An expansion without usual operands: right for all.
template <typename Expand>
Expansion for_all(Expand expand) {
  return [expand](const Expr& e, const Share& share, const Usual&) { return expand(e, share); };
}

// Follows quotients and elementary functions.
class Approximable {
 public:
  bool run(const Stmts& body, const std::vector<loop::Buffer>& params) {
    for (bool grew = true; grew;) {  // what loops leave for their next turns, too
      grew = false;
      loop::visit(body, [&](const Stmt& s) {
        const std::string& name = s->kind == StmtKind::kLet ? s->var : s->buffer;
        for (const What what : {kAll, kUnrounded, kCoarse}) {
          if (s->value && holds(s->value, what)) grew = names_[what].insert(name).second || grew;
        }
      });
    }
    const auto has = [this](const Expr& e, What what) {
      return std::ranges::any_of(e->args, [&](const Expr& x) { return holds(x, what); });
    };
    bool exact = std::ranges::any_of(
        params, [&](const loop::Buffer& p) { return !p.type.is_half() && names_[kUnrounded].contains(p.name); });
    loop::visit_exprs(body, [&](const Expr& whole) {
      visit(whole, [&](const Expr& e) {
        exact = exact || (is_step(e) && has(e, kAll)) || (may_cancel(e) && has(e, kCoarse));
      });
    });
    return !exact;
  }

 private:
  // kUnrounded: of these what was not rounded to 16 bits yet. kCoarse: of those what is right to some 14 bits only.
  enum What : uint8_t { kAll, kUnrounded, kCoarse };

  static bool is_call(const Expr& e, std::string_view name) { return e.op() == Op::kCall && e->name == name; }

  // A sum or a function, of which little may be left where its operand's leading bits cancel. 1 + erf(x) is one value.
  static bool may_cancel(const Expr& e) {
    if (e.op() == Op::kCall) return e->name != "tanh" && e->name != kRough;
    const bool sum = e.op() == Op::kAdd || e.op() == Op::kSub || e.op() == Op::kFma || e.op() == Op::kReduceAdd;
    return sum && !(e.op() == Op::kAdd && (is_call(e.arg(0), "erf") || is_call(e.arg(1), "erf")));
  }

  // A rounding to integers, a remainder, a comparison or a whole number: its operand's last bit may decide.
  static bool is_step(const Expr& e) {
    const bool steps = is_rounding(e.op()) || is_comparison(e.op()) || is_call(e, "fmod");
    const bool leaves = (e.op() == Op::kCast || e.op() == Op::kBitcast) && !e.type().is_float();
    return (steps || leaves) && e.arg(0).type().is_float();
  }

  bool holds(const Expr& e, What what) const {
    std::set<const ExprNode*> found;
    visit(e, [&](const Expr& x) {
      const bool coarse = is_call(x, "softplus") || is_call(x, "erf");
      const bool made = (x.op() == Op::kDiv && x.type().is_float()) || (x.op() == Op::kCall && x->name != "sqrt");
      const bool named = (x.is_var() || x.op() == Op::kLoad) && names_[what].contains(x->name);
      const auto is_found = [&](const Expr& arg) { return found.contains(&*arg); };
      const bool holds = (what == kCoarse ? coarse : made) || named || std::ranges::any_of(x->args, is_found);
      const bool as_rounded = x.type().is_half() || is_call(x, kRough);
      if (holds && (what == kAll || !as_rounded)) found.insert(&*x);
    });
    return found.contains(&*e);
  }

  std::array<std::set<std::string>, 3> names_;  // variables and buffers that hold what was made of some
};

// What a kernel writes and does not read.
std::set<std::string> only_written(const loop::Kernel& kernel) {
  std::set<std::string> names;
  for (const loop::Buffer& param : kernel.params) names.insert(param.name);
  loop::visit_exprs(kernel.body, [&](const Expr& whole) {
    visit(whole, [&](const Expr& e) {
      if (e.op() == Op::kLoad) names.erase(e->name);
    });
  });
  return names;
}

class Expander {
 public:
  Expander(Expansion expand, std::string prefix) : expand_(std::move(expand)), prefix_(std::move(prefix)) {}
  /// `rounded` takes the place of the expansion where a store rounds what it makes to 16 bits itself, for other
  /// kernels.
  Expander(Expansion expand, std::string prefix, Expansion rounded)
      : expand_(std::move(expand)), rounded_(std::move(rounded)), prefix_(std::move(prefix)) {}

  loop::Program run(const loop::Program& program) {
    const loop::Rewriter rewriter{.expr = {}, .stmt = [this](const Stmt& s) { return statement(s); }};
    return with_bodies(program, [&](const loop::Kernel& kernel) {
      counter_ = 0;
      results_ = only_written(kernel);
      return loop::rewrite(kernel.body, rewriter);
    });
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

  Expanded expand(const Expr& e, Operands operands, const Expansion& expansion) {
    Expanded out;
    const Share share = [&](const Expr& value) {
      out.bindings.push_back({fmt::format("{}{}", prefix_, counter_++), value});
      return var(out.bindings.back().name, value.type());
    };
    const Usual usual = [&](const Expr& condition) { out.conditions.push_back(condition); };
    out.value = e ? expansion(e, share, operands == Operands::kUsual ? usual : Usual()) : e;
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
    const Expanded e = expand(old, Operands::kAny, expand_);
    if (e.value.same(old)) return {s};
    return bind(e.bindings,
                is_let ? loop::make_let(s->var, e.value, s->body) : loop::make_if(e.value, s->body, s->otherwise));
  }

  // Where the expansion is for usual operands, a branch asks for them, and has another one for all others.
  Stmts store(const Stmt& s, Operands operands) {
    const Expanded e = expand(s->value, operands, rounds_to_16_bits(s) ? rounded_ : expand_);
    if (e.value.same(s->value)) return {s};
    const Stmt plain = loop::make_store(s->buffer, s->indices, e.value, s->predicate);
    if (e.conditions.empty()) return bind(e.bindings, plain);
    return bind(e.bindings, loop::make_if(in_all_lanes(e.conditions), {plain}, store(s, Operands::kAny)));
  }

  bool rounds_to_16_bits(const Stmt& s) const {
    return rounded_ && results_.contains(s->buffer) && s->value.type().is_half() && Approximable().run({s}, {});
  }

  static Expr in_all_lanes(const std::vector<Expr>& conditions) {
    Expr all;
    for (const Expr& c : conditions) {
      const Expr one = c.type().lanes() > 1 ? reduce_lanes(Op::kReduceAnd, c) : c;
      all = all ? all && one : one;
    }
    return all;
  }

  Expansion expand_, rounded_;
  std::string prefix_;
  std::set<std::string> results_;  // of the kernel at hand
  int counter_ = 0;
};

}  // namespace

bool rounds_to_16_bits(const loop::Kernel& kernel) { return Approximable().run(kernel.body, kernel.params); }

loop::Program split_products(const loop::Program& program, const LowerOptions& options) {
  return options.has.fma ? program : Expander(for_all(tw::split_fma), "p").run(program);
}

loop::Program expand_functions(const loop::Program& program, const LowerOptions& options) {
  loop::Program out = program;
  for (loop::Kernel& kernel : out.kernels) {
    const Expansion rounded = options.has.approximations ? tw::expand_approximate : Expansion();
    const Expansion others = rounded && rounds_to_16_bits(kernel) ? rounded : tw::expand_elementary;
    kernel = Expander(others, "f", rounded).run({{}, {kernel}}).kernels[0];
  }
  return out;
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
