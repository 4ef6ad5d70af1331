#include "construct/library/form.h"

#include <cmath>

#include "expr/parser.h"

namespace tw::construct {

Expr parse_form(std::string_view form) {
  ExprScope scope;
  scope.var_type = [](const std::string&) { return DataType::f32(); };
  return parse_expr(form, scope);
}

Expr without_rounding(Expr e) {
  while (e.op() == Op::kCast && e.type().is_float() && e.arg(0).type().is_float()) e = e.arg(0);
  return e;
}

bool fits(const Expr& form, const Expr& value, VarMap& bound) {
  if (!value) return false;
  const Expr e = without_rounding(value);
  if (form.is_var()) {
    if (form->name.starts_with('p') && e.op() != Op::kFloatImm) return false;
    const auto [known, fresh] = bound.try_emplace(form->name, e);
    return fresh || equal(known->second, e);
  }
  if (form.op() != e.op() || form->name != e->name || form->args.size() != e->args.size()) return false;
  if (form.op() == Op::kFloatImm && std::abs(form->number - e->number) > 1e-6) return false;
  for (size_t i = 0; i < form->args.size(); ++i) {
    if (!fits(form.arg(i), e.arg(i), bound)) return false;
  }
  return true;
}

}  // namespace tw::construct
