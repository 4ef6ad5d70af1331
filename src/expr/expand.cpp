#include "expr/expand.h"

#include <unordered_map>

#include "expr/math_f64.h"
#include "support/error.h"

namespace tw {
namespace {

bool holds_load(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || x.op() == Op::kLoad; });
  return found;
}

class Expander {
 public:
  explicit Expander(const Share& share) : outside_(share) {
    // A load in a branch of a select must stay there; anything else may be evaluated early.
    if (share) inside_branch_ = [&share](const Expr& e) { return holds_load(e) ? e : share(e); };
  }

  Expr expand(const Expr& e, bool in_branch) {
    if (e->args.empty()) return e;
    auto& done = in_branch ? done_in_branch_ : done_;
    const auto it = done.find(&*e);
    if (it != done.end()) return it->second;
    std::vector<Expr> args;
    for (size_t i = 0; i < e->args.size(); ++i) {
      args.push_back(expand(e.arg(i), in_branch || (e.op() == Op::kSelect && i > 0)));
    }
    Expr result = with_args(e, args);
    if (e.op() == Op::kCall) result = expand_call(result, in_branch ? inside_branch_ : outside_);
    done.emplace(&*e, result);
    return result;
  }

 private:
  static Expr expand_call(const Expr& call, const Share& share) {
    const DataType type = call.type();
    const bool is_f64 = type.scalar() == ScalarType::kF64;
    const bool is_f32 = type.scalar() == ScalarType::kF32;
    if (call->name == "sqrt" && (is_f32 || is_f64)) return call;
    const MathBuilder m(is_f64 ? type : DataType(ScalarType::kF32, type.lanes()), share);
    std::vector<Expr> args;
    for (const Expr& x : call->args) args.push_back(m.share(cast(m.type().element(), x)));
    if (call->name == "sqrt") return cast(type.element(), m.sqrt(args[0]));
    return cast(type.element(), is_f64 ? expansion_f64(call->name)(m, args) : expand_f32(m, call->name, args));
  }

  static Expansion expansion_f64(const std::string& name) {
    const Expansion expansion = find_expansion_f64(name);
    TW_CHECK(expansion, "no expansion of '{}'", name);
    return expansion;
  }

  // What has no arithmetic of its own in f32 is computed in f64 and rounded: rare functions, and nearly exact then.
  static Expr expand_f32(const MathBuilder& m, const std::string& name, const std::vector<Expr>& args) {
    if (const Expansion expansion = find_expansion_f32(name)) return expansion(m, args);
    const MathBuilder wide = m.with_type(ScalarType::kF64);
    std::vector<Expr> wide_args;
    for (const Expr& x : args) wide_args.push_back(wide.share(cast(DataType::f64(), x)));
    if (name == "tan") return cast(DataType::f32(), tan_of_f32(wide, wide_args[0]));
    if (name == "pow") return cast(DataType::f32(), pow_of_f32(wide, wide_args[0], wide_args[1]));
    return cast(DataType::f32(), expansion_f64(name)(wide, wide_args));
  }

  Share outside_;
  Share inside_branch_;
  std::unordered_map<const ExprNode*, Expr> done_;
  std::unordered_map<const ExprNode*, Expr> done_in_branch_;
};

}  // namespace

Expr expand_elementary(const Expr& e, const Share& share) { return Expander(share).expand(e, false); }

}  // namespace tw
