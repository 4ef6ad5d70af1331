#include "lower/passes.h"
#include "lower/simplify.h"
#include "support/join.h"

namespace tw::lower {
namespace {

enum class Unrolled : uint8_t { kKept, kCopied };

// Walks once over what it writes: values and suffix hold what the loops around the statement at hand have added.
class Copier {
 public:
  Copier(VarMap values, std::string suffix, Unrolled unrolled)
      : values_(std::move(values)), suffix_(std::move(suffix)), unrolled_(unrolled) {}

  Stmts run(const Stmts& stmts) {
    Stmts out;
    out.reserve(stmts.size());
    append(stmts, out);
    return out;
  }

 private:
  void append(const Stmts& stmts, Stmts& out) {
    for (const Stmt& s : stmts) {
      if (s->kind == StmtKind::kFor && s->for_kind == loop::ForKind::kUnrolled && unrolled_ == Unrolled::kCopied) {
        append_iterations(s, out);
      } else {
        out.push_back(copy(s));
      }
    }
  }

  void append_iterations(const Stmt& s, Stmts& out) {
    const std::string outer = suffix_;
    for (int64_t i = 0; i < s->extent; ++i) {
      suffix_ = "u" + std::to_string(i) + outer;
      with_value(s->var, int_imm(i), [&] { append(s->body, out); });
    }
    suffix_ = outer;
  }

  Stmt copy(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::kFor:
        return loop::make_for_like(s, s->var + suffix_, s->extent, renamed_body(s, DataType::i64()));
      case StmtKind::kLet: {
        const Expr value = copy(s->value);
        return loop::make_let(s->var + suffix_, value, renamed_body(s, value.type()));
      }
      case StmtKind::kStore:
        return loop::make_store(s->buffer, copy(s->indices), copy(s->value), copy(s->predicate));
      case StmtKind::kIf:
        return loop::make_if(copy(s->predicate), run(s->body), run(s->otherwise));
      case StmtKind::kBlock:
        return loop::make_block(run(s->body));
      case StmtKind::kAllocate:
        return loop::make_allocate(s->allocated, run(s->body));
      case StmtKind::kPrefetch:
        return loop::make_prefetch(s->buffer, copy(s->indices), static_cast<int>(s->extent));
    }
    throw InternalError("statement of unknown kind");
  }

  // The body of a loop or let whose variable has the suffix too; without one the variable stands for itself.
  Stmts renamed_body(const Stmt& s, DataType type) {
    Stmts body;
    with_value(s->var, suffix_.empty() ? Expr() : var(s->var + suffix_, type), [&] { append(s->body, body); });
    return body;
  }

  template <typename Body>
  void with_value(const std::string& name, const Expr& value, const Body& body) {
    const Expr former = value_or(values_, name, Expr());
    set(name, value);
    body();
    set(name, former);
  }

  void set(const std::string& name, const Expr& value) {
    if (value) {
      values_[name] = value;
    } else {
      values_.erase(name);
    }
  }

  Expr copy(const Expr& e) const { return e && !values_.empty() ? substitute(e, values_) : e; }

  std::vector<Expr> copy(const std::vector<Expr>& exprs) const {
    return mapped(exprs, [&](const Expr& e) { return copy(e); });
  }

  VarMap values_;
  std::string suffix_;
  Unrolled unrolled_;
};

}  // namespace

Stmts renamed_copy(const Stmts& stmts, VarMap values, std::string suffix) {
  return Copier(std::move(values), std::move(suffix), Unrolled::kKept).run(stmts);
}

loop::Program unroll(const loop::Program& program, const LowerOptions&) {
  return with_bodies(program,
                     [](const loop::Kernel& kernel) { return Copier({}, "", Unrolled::kCopied).run(kernel.body); });
}

}  // namespace tw::lower
