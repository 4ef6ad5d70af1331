#include "codegen/cuda/threads.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/model_units.h"
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

// Calls on every statement with the conditions around it in `guards`.
template <typename Visit>
void visit_guarded(const Stmts& stmts, std::vector<Expr>& guards, const Visit& visit) {
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

VarMap thread_values(const ThreadGroup& group, int64_t thread) {
  VarMap values;
  for (size_t i = group.loops.size(); i-- > 0;) {
    values[group.loops[i]->var] = int_imm(thread % group.loops[i]->extent);
    thread /= group.loops[i]->extent;
  }
  return values;
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

// How many of the innermost loops of a group no index names; all others must be named.
size_t unnamed_loops(const ThreadGroup& group, const CommonStore& s) {
  const auto named = [&](const Stmt& l) {
    const auto names = [&](const Expr& i) { return uses_var(i, l->var); };
    return l->extent == 1 || std::ranges::any_of(s.store->indices, names);
  };
  size_t unnamed = 0;
  while (unnamed < group.loops.size() && !named(group.loops[group.loops.size() - 1 - unnamed])) ++unnamed;
  if (std::ranges::all_of(group.loops, named) || is_exclusive(group, s)) return 0;
  for (size_t i = 0; i + unnamed < group.loops.size(); ++i) {
    TW_CHECK(named(group.loops[i]), "the threads of loop {} all store to {}", group.loops[i]->var, s.store->buffer);
  }
  return unnamed;
}

// Whether an index tells a thread of `group`: it names its loops and nothing else.
bool tells_thread(const Expr& index, const ThreadGroup& group) {
  bool only = true, any = false;
  visit(index, [&](const Expr& e) {
    const bool of_group =
        e.is_var() && std::ranges::any_of(group.loops, [&](const Stmt& l) { return l->var == e->name; });
    any = any || of_group;
    only = only && e.op() != Op::kLoad && (!e.is_var() || of_group);
  });
  return any && only;
}

// A use of a buffer by the threads of a group for which the guards hold.
struct Access {
  const ThreadGroup* group;
  std::vector<Expr> indices, guards;
};

// All uses of one buffer inside thread loops.
class AccessFinder {
 public:
  explicit AccessFinder(const loop::Buffer& buffer) : buffer_(buffer) {}

  std::vector<Access> run(const Stmts& scope) {
    groups(scope);
    return std::move(found_);
  }

 private:
  void groups(const Stmts& stmts) {
    for (const Stmt& s : stmts) {
      if (loop::is_thread_loop(s)) {
        groups_.push_back(std::make_unique<ThreadGroup>(thread_group(s)));
        statements(groups_.back()->body());
      } else {
        groups(s->body);
        groups(s->otherwise);
      }
    }
  }

  void statements(const Stmts& stmts) {
    visit_guarded(stmts, guards_, [&](const Stmt& s) {
      for (const Expr& index : s->indices) loads(index);
      for (const Expr& e : {s->value, s->predicate}) {
        if (e) loads(e);
      }
      if (s->kind == StmtKind::kStore && s->buffer == buffer_.name) add(s->indices);
    });
  }

  void loads(const Expr& whole) {
    visit(whole, [&](const Expr& e) {
      if (e.op() != Op::kLoad || e->name != buffer_.name) return;
      add({e->args.begin(), e->args.begin() + static_cast<ptrdiff_t>(buffer_.shape.size())});
    });
  }

  void add(std::vector<Expr> indices) { found_.push_back({groups_.back().get(), std::move(indices), guards_}); }

  const loop::Buffer& buffer_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
  std::vector<Expr> guards_;
  std::vector<Access> found_;
};

// Checks that each element of a buffer is used by one thread, by what `dims` tell.
class OwnerCheck {
 public:
  OwnerCheck(const loop::Buffer& buffer, const std::vector<bool>& dims) : buffer_(buffer), dims_(dims) {}

  void add(const Access& access) {
    std::vector<Expr> telling;
    std::string text;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (!dims_[d]) continue;
      telling.push_back(access.indices[d]);
      text += to_string(access.indices[d]) + ",";
    }
    for (const Expr& guard : access.guards) text += to_string(guard) + ",";
    if (!seen_.insert(std::move(text)).second) return;
    for (int64_t thread = 0; thread < access.group->threads; ++thread) {
      const VarMap values = thread_values(*access.group, thread);
      const auto fails = [&](const Expr& guard) { return analyzer_.simplify(substitute(guard, values)).is_int(0); };
      if (std::ranges::none_of(access.guards, fails)) agree(thread, telling, values);
    }
  }

 private:
  void agree(int64_t thread, const std::vector<Expr>& telling, const VarMap& values) {
    std::vector<int64_t> element;
    for (const Expr& index : telling) {
      const Expr value = analyzer_.simplify(substitute(index, values));
      TW_CHECK(value.op() == Op::kIntImm, "{} of {} tells a thread and more", to_string(index), buffer_.name);
      element.push_back(value->value);
    }
    const auto [known, is_new] = owner_.try_emplace(element, thread);
    TW_CHECK(known->second == thread, "threads {} and {} use one element of {}", known->second, thread, buffer_.name);
  }

  const loop::Buffer& buffer_;
  const std::vector<bool>& dims_;
  const Analyzer analyzer_;
  std::set<std::string> seen_;
  std::map<std::vector<int64_t>, int64_t> owner_;
};

}  // namespace

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

std::vector<bool> thread_dims(const loop::Buffer& buffer, const Stmts& scope) {
  AccessFinder finder(buffer);
  const std::vector<Access> accesses = finder.run(scope);
  std::vector<bool> dims(buffer.shape.size(), false);
  for (const Access& a : accesses) {
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] || tells_thread(a.indices[d], *a.group);
  }
  OwnerCheck check(buffer, dims);
  for (const Access& a : accesses) check.add(a);
  return dims;
}

}  // namespace tw::codegen
