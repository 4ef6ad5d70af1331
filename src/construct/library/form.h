// Forms of element-wise arithmetic: text with variables, which expressions are compared with.
#pragma once
#include <string_view>

#include "expr/expr.h"

namespace tw::construct {

/// An expression whose variables are f32.
Expr parse_form(std::string_view form);

/// `e` without the conversions between floats around it.
Expr without_rounding(Expr e);

/// Whether `value`, apart from conversions between floats, is `form` with its variables as `bound` says; adds those
/// that it does not have. Variables whose names begin with p stand for numbers.
bool fits(const Expr& form, const Expr& value, VarMap& bound);

}  // namespace tw::construct
