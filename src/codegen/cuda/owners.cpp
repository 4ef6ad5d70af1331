#include <map>

#include "codegen/cuda/matrix.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;

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
enum class Use : uint8_t { kLoads, kStores, kStoresAlike };  // alike: what all threads have
struct Access {
  const ThreadGroup* group;
  std::vector<Expr> indices, guards;
  Use use;
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
    const std::optional<Combination> combination = combination_of(*groups_.back());
    const bool combines = combination && combination->buffer == buffer_.name;
    std::set<const loop::StmtNode*> steps;  // stores of matrix steps that read the buffer as the instruction does
    for (const Stmt& nest : outermost(stmts, loop::is_matrix_loop)) {
      add_step(nest, steps);
    }
    visit_guarded(stmts, guards_, [&](const Stmt& s) {
      if (steps.contains(&*s)) return;
      for (const Expr& index : s->indices) loads(index);
      for (const Expr& e : {s->value, s->predicate}) {
        if (e) loads(e);
      }
      if (s->kind != StmtKind::kStore || s->buffer != buffer_.name) return;
      const bool constant = s->value.op() == Op::kFloatImm || s->value.op() == Op::kIntImm;
      add(s->indices, constant || combines ? Use::kStoresAlike : Use::kStores);
    });
  }

  // Each lane of a warp holds its part of an operand.
  void add_step(const Stmt& nest, std::set<const loop::StmtNode*>& steps) {
    Analyzer ranges;
    for (const Stmt& l : groups_.back()->loops) ranges.bind(l->var, 0, l->extent);
    std::string sums;
    std::vector<std::vector<Expr>> held;
    if (is_group_step(nest)) {
      const GroupStep step = group_step(nest, *groups_.back(), ranges);
      sums = step.sums, held = step.held;
    } else {
      const MatrixStep step = matrix_step(nest, *groups_.back(), ranges);
      sums = step.sums, held = step.operands;
    }
    if (sums == buffer_.name) return;
    loop::visit({nest}, [&](const Stmt& s) {
      if (s->kind == StmtKind::kStore) steps.insert(&*s);
    });
    for (const std::vector<Expr>& operands : held) {
      for (const Expr& load : operands) loads(load);
    }
  }

  // What a select does not take is not loaded.
  void loads(const Expr& whole) {
    std::set<const ExprNode*> seen;
    loads(whole, seen);
  }

  void loads(const Expr& e, std::set<const ExprNode*>& seen) {
    if (!seen.insert(&*e).second) return;
    if (e.op() == Op::kSelect && !e.arg(0).type().is_vector()) {
      loads(e.arg(0), seen);
      guards_.push_back(e.arg(0));
      loads(e.arg(1));
      guards_.back() = logical_not(e.arg(0));
      loads(e.arg(2));
      return guards_.pop_back();
    }
    for (const Expr& arg : e->args) loads(arg, seen);
    if (e.op() != Op::kLoad || e->name != buffer_.name) return;
    add({e->args.begin(), e->args.begin() + static_cast<ptrdiff_t>(buffer_.shape.size())}, Use::kLoads);
  }

  void add(std::vector<Expr> indices, Use use) {
    found_.push_back({groups_.back().get(), std::move(indices), guards_, use});
  }

  const loop::Buffer& buffer_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
  std::vector<Expr> guards_;
  std::vector<Access> found_;
};

// Checks that each thread uses one element of a buffer, by what `dims` tell, and no other thread that element; or that
// all who do have stored the same there.
class OwnerCheck {
 public:
  OwnerCheck(const loop::Buffer& buffer, const std::vector<bool>& dims) : buffer_(buffer), dims_(dims) {}

  void add(const Access& access) {
    std::vector<Expr> telling;
    std::string text = fmt::format("{} ", static_cast<int>(access.use));
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
      if (std::ranges::none_of(access.guards, fails)) use(thread, element_of(telling, values), access.use);
    }
  }

  void finish() const {
    for (const auto& [thread, element] : element_) {
      const auto& users = users_.at(element);
      const bool alone = users.size() == 1 || (!own_.contains(element) && stores_.contains(thread));
      TW_CHECK(alone, "threads {} and {} use one element of {}", *users.begin(), *users.rbegin(), buffer_.name);
    }
  }

 private:
  using Element = std::vector<int64_t>;

  Element element_of(const std::vector<Expr>& telling, const VarMap& values) const {
    Element element;
    for (const Expr& index : telling) {
      const Expr value = analyzer_.simplify(substitute(index, values));
      TW_CHECK(value.op() == Op::kIntImm, "{} of {} tells a thread and more", to_string(index), buffer_.name);
      element.push_back(value->value);
    }
    return element;
  }

  void use(int64_t thread, const Element& element, Use use) {
    const auto [known, is_new] = element_.try_emplace(thread, element);
    TW_CHECK(known->second == element, "thread {} uses two elements of {} that tell threads", thread, buffer_.name);
    users_[element].insert(thread);
    if (use == Use::kStores) own_.insert(element);
    if (use != Use::kLoads) stores_.insert(thread);
  }

  const loop::Buffer& buffer_;
  const std::vector<bool>& dims_;
  const Analyzer analyzer_;
  std::set<std::string> seen_;
  std::map<int64_t, Element> element_;  // of each thread
  std::map<Element, std::set<int64_t>> users_;
  std::set<Element> own_;     // in which a thread stores what is its own
  std::set<int64_t> stores_;  // threads that store
};

}  // namespace

std::vector<bool> thread_dims(const loop::Buffer& buffer, const Stmts& scope) {
  AccessFinder finder(buffer);
  const std::vector<Access> accesses = finder.run(scope);
  std::vector<bool> dims(buffer.shape.size(), false);
  for (const Access& a : accesses) {
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] || tells_thread(a.indices[d], *a.group);
  }
  OwnerCheck check(buffer, dims);
  for (const Access& a : accesses) check.add(a);
  check.finish();
  return dims;
}

}  // namespace tw::codegen
