// Which parts of an expression get variables: expressions are graphs, their text is a tree.
#include <algorithm>
#include <unordered_set>

#include "codegen/cuda/emit_expr.h"

namespace tw::codegen {
namespace {

constexpr int64_t kLong = 16;  // nodes: shorter parts are written again, the compiler of the text finds them

// What is evaluated whatever the conditions in `e` hold: its loads may be performed before.
void find_certain(const Expr& e, const CudaNames& names, std::unordered_set<const ExprNode*>& found) {
  if (names.evaluated.contains(&*e) || !found.insert(&*e).second) return;
  const size_t unconditional = e.op() == Op::kSelect ? 1 : e->args.size();
  for (size_t i = 0; i < unconditional; ++i) find_certain(e.arg(i), names, found);
}

bool is_plain_load(const Expr& e) { return e.op() == Op::kLoad && !e->predicated && !e.type().is_vector(); }

class SharedParts {
 public:
  explicit SharedParts(const CudaNames& names) : names_(names) {}

  std::vector<Expr> run(const Expr& e) {
    find_certain(e, names_, certain_);
    count(e);
    std::vector<Expr> parts;
    for (const Expr& x : operands_first_) {
      Facts& facts = facts_[&*x];
      facts.nodes = 1;
      for (const Expr& arg : x->args) facts.nodes = std::min(facts.nodes + facts_[&*arg].nodes, kLong);
      if (facts.uses < 2 || facts.nodes < kLong || is_index(x, names_)) continue;
      if (facts.risky && !certain_.contains(&*x)) continue;
      parts.push_back(x);
      facts.nodes = 1;
    }
    return parts;
  }

 private:
  struct Facts {
    int uses = 0;
    bool risky = false;  // some load of it may have to be left undone
    int64_t nodes = 1;   // of its text, variables being one
  };

  bool is_known(const Expr& e) const { return names_.evaluated.contains(&*e); }

  bool is_risky_load(const Expr& e) const {
    if (e.op() != Op::kLoad || certain_.contains(&*e)) return false;
    return !is_plain_load(e) || !names_.performed.contains(cuda_element(e->name, e->args, names_));
  }

  void count(const Expr& e) {
    Facts& facts = facts_[&*e];
    if (++facts.uses > 1 || is_known(e)) return;
    bool risky = is_risky_load(e);
    for (const Expr& arg : e->args) {
      count(arg);
      risky = risky || facts_[&*arg].risky;
    }
    facts_[&*e].risky = risky;
    operands_first_.push_back(e);
  }

  const CudaNames& names_;
  std::unordered_set<const ExprNode*> certain_;
  std::unordered_map<const ExprNode*, Facts> facts_;
  std::vector<Expr> operands_first_;
};

}  // namespace

std::vector<Expr> shared_parts(const Expr& e, const CudaNames& names) { return SharedParts(names).run(e); }

void add_performed(const Expr& e, CudaNames& names) {
  std::unordered_set<const ExprNode*> certain;
  find_certain(e, names, certain);
  visit(e, [&](const Expr& x) {
    if (is_plain_load(x) && certain.contains(&*x)) names.performed.insert(cuda_element(x->name, x->args, names));
  });
}

}  // namespace tw::codegen
