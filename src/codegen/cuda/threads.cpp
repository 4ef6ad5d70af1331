#include "codegen/cuda/threads.h"

#include "core/target_info.h"
#include "expr/analyzer.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return equal(x, y); });
}

bool is_element(const Expr& e, const std::string& buffer, const std::vector<Expr>& indices) {
  return e.op() == Op::kLoad && e->name == buffer && !e->predicated && same_indices(e->args, indices);
}

// The operation of buffer[i] = buffer[i] op value.
std::optional<Op> update_of(const Stmt& store) {
  const Expr& v = store->value;
  const auto is_old = [&](const Expr& e) { return is_element(e, store->buffer, store->indices); };
  if (v.op() == Op::kFma) return is_old(v.arg(2)) ? std::optional(Op::kAdd) : std::nullopt;
  const bool combines = te::combiner_of(v.op()) && (is_old(v.arg(0)) || is_old(v.arg(1)));
  return combines ? std::optional(v.op()) : std::nullopt;
}

// A store of a group to what its threads have in common, and the conditions around it.
struct CommonStore {
  Stmt store;
  std::vector<Expr> guards;
};

std::vector<CommonStore> common_stores(const Stmts& body) {
  std::set<std::string> own;
  std::vector<Expr> guards;
  std::vector<CommonStore> found;
  visit_guarded(body, guards, [&](const Stmt& s) {
    if (s->kind == StmtKind::kAllocate) own.insert(s->allocated.name);
    if (s->kind == StmtKind::kStore && !own.contains(s->buffer)) found.push_back({s, guards});
  });
  return found;
}

// Whether the conditions around a store leave each element to one thread.
bool is_exclusive(const ThreadGroup& group, const CommonStore& s) {
  const Analyzer analyzer;
  std::set<std::string> elements;
  for (int64_t thread = 0; thread < group.threads; ++thread) {
    const VarMap values = thread_values(group, thread);
    const auto fails = [&](const Expr& guard) { return analyzer.simplify(substitute(guard, values)).is_int(0); };
    if (std::ranges::any_of(s.guards, fails)) continue;
    std::string element;
    for (const Expr& index : s.store->indices) element += to_string(analyzer.simplify(substitute(index, values))) + ",";
    if (!elements.insert(std::move(element)).second) return false;
  }
  return true;
}

bool is_constant(const Expr& e) { return e.op() == Op::kFloatImm || e.op() == Op::kIntImm; }

// How many of the innermost loops of a group no index names; all others must be named.
size_t unnamed_loops(const ThreadGroup& group, const CommonStore& s) {
  const auto named = [&](const Stmt& l) {
    const auto names = [&](const Expr& i) { return uses_var(i, l->var); };
    return l->extent == 1 || std::ranges::any_of(s.store->indices, names);
  };
  if (is_constant(s.store->value)) return 0;  // the same from all
  size_t unnamed = 0;
  while (unnamed < group.loops.size() && !named(group.loops[group.loops.size() - 1 - unnamed])) ++unnamed;
  if (std::ranges::all_of(group.loops, named) || is_exclusive(group, s)) return 0;
  for (size_t i = 0; i + unnamed < group.loops.size(); ++i) {
    TW_CHECK(named(group.loops[i]), "the threads of loop {} all store to {}", group.loops[i]->var, s.store->buffer);
  }
  return unnamed;
}

}  // namespace

void visit_guarded(const Stmts& stmts, std::vector<Expr>& guards, const std::function<void(const Stmt&)>& visit) {
  for (const Stmt& s : stmts) {
    visit(s);
    const bool is_if = s->kind == StmtKind::kIf;
    if (is_if) guards.push_back(s->predicate);
    visit_guarded(s->body, guards, visit);
    if (is_if) guards.back() = logical_not(s->predicate);
    visit_guarded(s->otherwise, guards, visit);
    if (is_if) guards.pop_back();
  }
}

VarMap thread_values(const ThreadGroup& group, int64_t thread) {
  VarMap values;
  for (size_t i = group.loops.size(); i-- > 0;) {
    values[group.loops[i]->var] = int_imm(thread % group.loops[i]->extent);
    thread /= group.loops[i]->extent;
  }
  return values;
}

ThreadGroup thread_group(const Stmt& outermost) {
  ThreadGroup group;
  for (Stmt s = outermost;; s = s->body.front()) {
    group.loops.push_back(s);
    group.threads *= s->extent;
    if (s->body.size() != 1 || !loop::is_thread_loop(s->body.front())) return group;
  }
}

Stmts outermost(const Stmts& stmts, const std::function<bool(const Stmt&)>& is) {
  Stmts found;
  for (const Stmt& s : stmts) {
    if (is(s)) {
      found.push_back(s);
      continue;
    }
    for (const auto* inner : {&s->body, &s->otherwise}) {
      for (Stmt& nest : outermost(*inner, is)) found.push_back(std::move(nest));
    }
  }
  return found;
}

int64_t max_threads(const Stmts& stmts) {
  int64_t max = 0;
  for (const Stmt& s : stmts) {
    max = std::max(max, loop::is_thread_loop(s) ? thread_group(s).threads
                                                : std::max(max_threads(s->body), max_threads(s->otherwise)));
  }
  return max;
}

std::optional<Combination> combination_of(const ThreadGroup& group) {
  std::optional<Combination> found;
  const std::vector<CommonStore> stores = common_stores(group.body());
  for (const CommonStore& common : stores) {
    const Stmt& s = common.store;
    const bool follows = found && found->buffer == s->buffer && same_indices(found->indices, s->indices);
    const size_t unnamed = follows ? 0 : unnamed_loops(group, common);
    if (unnamed == 0 && !found) continue;
    const std::optional<Op> op = update_of(s);
    TW_CHECK(op && !s->value.type().is_vector(), "all threads store to {}, and not by combining", s->buffer);
    TW_CHECK(!found ? &common == &stores.front() : follows && found->op == *op,
             "threads combine into {} and store to {}", found ? found->buffer : s->buffer, s->buffer);
    if (found) continue;
    found = {s->buffer, s->indices, s->value.type(), *op, 1};
    for (size_t i = 0; i < unnamed; ++i) found->run *= group.loops[group.loops.size() - 1 - i]->extent;
  }
  if (!found) return found;
  const int64_t run = found->run;
  TW_CHECK(run % kWarpThreads == 0 || (run < kWarpThreads && (run & (run - 1)) == 0),
           "{} threads combine: neither warps nor a part", run);
  return found;
}

}  // namespace tw::codegen
