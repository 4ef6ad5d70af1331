// Constructors and traversal of statements.
#include <algorithm>

#include "loop/expr_verifier.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::loop {
namespace {

Stmt make(StmtNode node) { return Stmt(std::make_shared<const StmtNode>(std::move(node))); }

void check_indices(const std::string& buffer, const std::vector<Expr>& indices) {
  TW_CHECK(!buffer.empty(), "access of a buffer without name");
  for (const Expr& index : indices) {
    TW_CHECK(bool(index), "missing index of {}", buffer);
    TW_CHECK(index.type().is_int(), "index {} of {} is {}", to_string(index), buffer, to_string(index.type()));
  }
}

template <typename T>
bool same_list(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return x.same(y); });
}

// The statement of kind `old` with other parts, built by its constructor so that its checks hold again.
Stmt rebuild(const Stmt& old, StmtNode parts) {
  switch (old->kind) {
    case StmtKind::kFor:
      return make_for_like(old, old->var, old->extent, std::move(parts.body));
    case StmtKind::kLet:
      return make_let(old->var, std::move(parts.value), std::move(parts.body));
    case StmtKind::kStore:
      return make_store(old->buffer, std::move(parts.indices), std::move(parts.value), std::move(parts.predicate));
    case StmtKind::kIf:
      return make_if(std::move(parts.predicate), std::move(parts.body), std::move(parts.otherwise));
    case StmtKind::kBlock:
      return make_block(std::move(parts.body));
    case StmtKind::kAllocate:
      return make_allocate(old->allocated, std::move(parts.body));
    case StmtKind::kPrefetch:
      return make_prefetch(old->buffer, std::move(parts.indices), static_cast<int>(old->extent));
  }
  throw InternalError("statement of unknown kind");
}

// `stmt` with what `expr` makes of its expressions and `list` of its children; the same node when none changed.
template <typename ExprOf, typename ListOf>
Stmt map_parts(const Stmt& stmt, const ExprOf& expr, const ListOf& list) {
  const auto expr_or_null = [&](const Expr& e) { return e ? expr(e) : e; };
  StmtNode parts = {.kind = stmt->kind,
                    .indices = mapped(stmt->indices, expr_or_null),
                    .value = expr_or_null(stmt->value),
                    .predicate = expr_or_null(stmt->predicate),
                    .body = list(stmt->body),
                    .otherwise = list(stmt->otherwise)};
  const bool unchanged = same_list(parts.indices, stmt->indices) && parts.value.same(stmt->value) &&
                         parts.predicate.same(stmt->predicate) && same_list(parts.body, stmt->body) &&
                         same_list(parts.otherwise, stmt->otherwise);
  return unchanged ? stmt : rebuild(stmt, std::move(parts));
}

// What the rewriter's functions make of one statement.
std::vector<Stmt> rewrite_one(const Stmt& stmt, const Rewriter& rewriter) {
  const auto expr = [&](const Expr& e) {
    const Expr replaced = rewriter.expr ? rewriter.expr(e) : e;
    return replaced ? replaced : e;
  };
  const Stmt updated = map_parts(stmt, expr, [&](const std::vector<Stmt>& list) { return rewrite(list, rewriter); });
  return rewriter.stmt ? rewriter.stmt(updated) : std::vector<Stmt>{updated};
}

// One statement of substitute(): in the body of a loop or let its own variable hides the value of an outer one of that
// name. The variable of a let takes the type of its new value, so its uses are replaced when that type changes.
Stmt substitute_one(const Stmt& stmt, const VarMap& values) {
  const auto value_of = [&](const Expr& e) { return tw::substitute(e, values); };
  VarMap inner = values;
  if (stmt->kind == StmtKind::kFor || stmt->kind == StmtKind::kLet) inner.erase(stmt->var);
  if (stmt->kind == StmtKind::kLet) {
    const DataType type = value_of(stmt->value).type();
    if (type != stmt->value.type()) inner[stmt->var] = var(stmt->var, type);
  }
  return map_parts(stmt, value_of, [&](const std::vector<Stmt>& list) { return substitute(list, inner); });
}

}  // namespace

Stmt make_for(std::string var, int64_t extent, ForKind kind, std::vector<Stmt> body, int64_t stages) {
  TW_CHECK(!var.empty() && extent >= 0 && stages >= 1, "loop '{}' of extent {}", var, extent);
  return make({.kind = StmtKind::kFor,
               .var = std::move(var),
               .extent = extent,
               .for_kind = kind,
               .stages = stages,
               .body = std::move(body)});
}

Stmt make_for_like(const Stmt& like, std::string var, int64_t extent, std::vector<Stmt> body) {
  return make_for(std::move(var), extent, like->for_kind, std::move(body), like->stages);
}

PipelineParts pipeline_parts(const StmtNode& loop) {
  PipelineParts parts;
  std::vector<Stmt> rest = loop.body;
  while (rest.size() == 1 && rest[0]->kind == StmtKind::kAllocate && rest[0]->allocated.scope == Scope::kStack) {
    parts.buffers.push_back(rest[0]->allocated);
    rest = std::vector<Stmt>(rest[0]->body);
  }
  std::vector<Buffer> registers;  // around all the rest: those who use the buffers need them
  while (rest.size() == 1 && rest[0]->kind == StmtKind::kAllocate && rest[0]->allocated.scope == Scope::kRegister) {
    registers.push_back(rest[0]->allocated);
    rest = std::vector<Stmt>(rest[0]->body);
  }
  const auto fills = [&](const Stmt& s) {
    bool only = true, copies = false;
    visit({s}, [&](const Stmt& inner) {
      copies = copies || is_thread_loop(inner) || is_bulk_loop(inner);
      const bool own = std::ranges::find(parts.buffers, inner->buffer, &Buffer::name) != parts.buffers.end();
      only = only && (inner->kind != StmtKind::kStore || own);
    });
    return only && copies;
  };
  const auto first_use = std::ranges::find_if_not(rest, fills);
  parts.fill.assign(rest.begin(), first_use);
  parts.use.assign(first_use, rest.end());
  for (size_t i = registers.size(); i-- > 0;) parts.use = {make_allocate(registers[i], std::move(parts.use))};
  return parts;
}

Stmt make_let(std::string var, Expr value, std::vector<Stmt> body) {
  TW_CHECK(!var.empty() && bool(value), "let '{}' without name or value", var);
  return make({.kind = StmtKind::kLet, .var = std::move(var), .value = std::move(value), .body = std::move(body)});
}

Stmt make_store(std::string buffer, std::vector<Expr> indices, Expr value, Expr predicate) {
  check_indices(buffer, indices);
  TW_CHECK(bool(value), "store to {} without a value", buffer);
  const int lanes = lanes_of(indices);
  if (!value.type().is_vector()) value = broadcast(value, lanes);
  TW_CHECK(value.type().lanes() == lanes, "store of {} to {} lanes of {}", to_string(value.type()), lanes, buffer);
  if (predicate) {
    const DataType type = predicate.type();
    TW_CHECK(type.is_bool() && (type.lanes() == 1 || type.lanes() == lanes),
             "predicate {} of a store to {} lanes of {}", to_string(predicate), lanes, buffer);
  }
  return make({.kind = StmtKind::kStore,
               .buffer = std::move(buffer),
               .indices = std::move(indices),
               .value = std::move(value),
               .predicate = std::move(predicate)});
}

Stmt make_if(Expr condition, std::vector<Stmt> then, std::vector<Stmt> otherwise) {
  TW_CHECK(bool(condition), "an if without condition");
  TW_CHECK(condition.type() == DataType::boolean(), "condition {} of an if is {}", to_string(condition),
           to_string(condition.type()));
  return make({.kind = StmtKind::kIf,
               .predicate = std::move(condition),
               .body = std::move(then),
               .otherwise = std::move(otherwise)});
}

Stmt make_block(std::vector<Stmt> stmts) { return make({.kind = StmtKind::kBlock, .body = std::move(stmts)}); }

Stmt make_allocate(Buffer buffer, std::vector<Stmt> body) {
  TW_CHECK(!buffer.name.empty() && buffer.scope != Scope::kParam, "allocate '{}' of scope param", buffer.name);
  TW_CHECK(!buffer.type.is_vector(), "buffer {} of vectors {}", buffer.name, to_string(buffer.type));
  for (int64_t extent : buffer.shape) {
    TW_CHECK(extent >= 0, "buffer {} of shape {}", buffer.name, tw::to_string(buffer.shape));
  }
  return make({.kind = StmtKind::kAllocate, .allocated = std::move(buffer), .body = std::move(body)});
}

Stmt make_prefetch(std::string buffer, std::vector<Expr> indices, int level) {
  check_indices(buffer, indices);
  TW_CHECK(lanes_of(indices) == 1, "prefetch of a vector of addresses in {}", buffer);
  TW_CHECK(level == 1 || level == 2, "prefetch of {} into level {}", buffer, level);
  return make(
      {.kind = StmtKind::kPrefetch, .extent = level, .buffer = std::move(buffer), .indices = std::move(indices)});
}

std::vector<Stmt> rewrite(const std::vector<Stmt>& stmts, const Rewriter& rewriter) {
  std::vector<Stmt> out;
  out.reserve(stmts.size());
  for (const Stmt& stmt : stmts) append(out, rewrite_one(stmt, rewriter));
  return out;
}

void visit(const std::vector<Stmt>& stmts, const std::function<void(const Stmt&)>& f) {
  for (const Stmt& stmt : stmts) {
    f(stmt);
    visit(stmt->body, f);
    visit(stmt->otherwise, f);
  }
}

void visit_exprs(const std::vector<Stmt>& stmts, const std::function<void(const Expr&)>& f) {
  visit(stmts, [&](const Stmt& stmt) {
    for (const Expr& index : stmt->indices) f(index);
    if (stmt->value) f(stmt->value);
    if (stmt->predicate) f(stmt->predicate);
  });
}

std::vector<Stmt> substitute(const std::vector<Stmt>& stmts, const VarMap& values) {
  return mapped(stmts, [&](const Stmt& stmt) { return substitute_one(stmt, values); });
}

}  // namespace tw::loop
