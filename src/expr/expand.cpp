#include "expr/expand.h"

#include <limits>

#include "expr/math_f64.h"
#include "support/error.h"
#include "support/join.h"

namespace tw {
namespace {

Expansion expansion_f64(const std::string& name) {
  const Expansion expansion = find_expansion_f64(name);
  TW_CHECK(expansion, "no expansion of '{}'", name);
  return expansion;
}

// What has no arithmetic of its own in f32 is computed in f64 and rounded: rare functions, and nearly exact then.
Expr expand_f32(const MathBuilder& m, const std::string& name, const std::vector<Expr>& args, Results results) {
  if (const Expansion expansion = find_expansion_f32(name, results)) return expansion(m, args);
  const MathBuilder wide = m.with_type(ScalarType::kF64);
  const auto wide_args = mapped(args, [&](const Expr& x) { return wide.share(cast(DataType::f64(), x)); });
  if (name == "tan") return cast(DataType::f32(), tan_of_f32(wide, wide_args[0]));
  if (name == "pow") return cast(DataType::f32(), pow_of_f32(wide, wide_args[0], wide_args[1]));
  if (name == "fmod") return cast(DataType::f32(), fmod_of_f32(wide, wide_args[0], wide_args[1]));
  return cast(DataType::f32(), expansion_f64(name)(wide, wide_args));
}

// x^0.5: a square root, but of minus infinity, and of -0, which x + 0 makes 0.
Expr power_of_one_half(const MathBuilder& m, const Expr& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return select(x == m.number(-kInfinity), m.number(kInfinity), m.sqrt(x + m.number(0)));
}

bool is_one_half(const Expr& e) {
  if (e.op() == Op::kBroadcast || e.op() == Op::kCast) return is_one_half(e.arg(0));
  return e.op() == Op::kFloatImm && e->number == 0.5;
}

Expr expand_call(const Expr& call, const Share& share, const Usual& usual, Results results) {
  const DataType type = call.type();
  const bool is_f64 = type.scalar() == ScalarType::kF64;
  const bool is_f32 = type.scalar() == ScalarType::kF32;
  if (call->name == "sqrt" && (is_f32 || is_f64)) return call;
  const MathBuilder m(is_f64 ? type : DataType(ScalarType::kF32, type.lanes()), share, usual);
  const auto args = mapped(call->args, [&](const Expr& x) { return m.share(cast(m.type().element(), x)); });
  if (call->name == "sqrt") return cast(type.element(), m.sqrt(args[0]));
  if (call->name == "pow" && is_one_half(call->args[1])) return cast(type.element(), power_of_one_half(m, args[0]));
  return cast(type.element(), is_f64 ? expansion_f64(call->name)(m, args) : expand_f32(m, call->name, args, results));
}

}  // namespace

Expr expand_elementary(const Expr& e, const Share& share, const Usual& usual) {
  return rewrite_sharing(e, share, [&](const Expr& x, const Share& s) {
    return x.op() == Op::kCall ? expand_call(x, s, usual, Results::kF32) : x;
  });
}

Expr expand_approximate(const Expr& e, const Share& share, const Usual& usual) {
  const auto quotients = [](const Expr& x) {
    return x.op() == Op::kDiv && x.type().scalar() == ScalarType::kF32 ? call("quotient_approx", x->args) : x;
  };
  const auto sums = [](const Expr& x) {  // 1 + erf(y) stays exact where erf nears -1
    for (const size_t i : {0, 1}) {
      if (x.op() == Op::kAdd && x.arg(i).op() == Op::kCall && x.arg(i)->name == "erf" &&
          equal(x.arg(1 - i), imm(x.type(), 1)))
        return call("erf_plus_1", x.arg(i)->args);
    }
    return x;
  };
  const Share shared = [&](const Expr& x) { return share ? share(rewrite(x, quotients)) : x; };
  const Expr expanded = rewrite_sharing(rewrite(e, sums), shared, [&](const Expr& x, const Share& s) {
    return x.op() == Op::kCall ? expand_call(x, s, usual, Results::k16Bits) : x;
  });
  return rewrite(expanded, quotients);
}

}  // namespace tw
