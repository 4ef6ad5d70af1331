// Reads the text that to_string(Expr) prints.
//
//   (i + 4)  (a - b)  (a * b)  (a / b)  floordiv(a, 16)  floormod(a, 16)  min(a, b)  max(a, b)  fma(a, b, c)
//   -(x)  abs(x)  floor(x)  ceil(x)  round(x)  trunc(x)  exp(x) and every other elementary function
//   (p && q)  (p || q)  !(p)    and on integers (a & b)  (a | b)  (a ^ b)  ~(a)  (a << b)  (a >> b)
//   (a == b)  (a != b)  (a < b)  (a <= b)    select(c, a, b)  cast<f16>(x)  bitcast<i32>(x)
//   A[i, (j * 4)]    (A[i, j] if p)  a load whose lanes with a false p give 0
//   ramp(i, 1, 16)  broadcast(x, 16)  extract(v, 3)  reduce_add(v)  reduce_min  reduce_max  reduce_mul  reduce_and
//   reduce_or 12 is i64, 12:i32, 1.5:f32, inf:f32, -nan:f16, true, false; a name that is no identifier stands in
//   quotes: "a/b"[i]
// Besides what is printed, the parser takes C's precedence without parentheses, `a % b` for floormod, `>` and `>=`.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "expr/expr.h"
#include "support/lexer.h"

namespace tw {

/// What names mean. Empty functions: no tensors, every variable is i64.
struct ExprScope {
  /// Element type of the tensor or buffer `name`; nothing when there is none.
  std::function<std::optional<DataType>(const std::string& name)> tensor_type;
  /// Type of the variable `name`. May throw UserError for unknown names.
  std::function<DataType(const std::string& name)> var_type;
};

/// Takes one expression. Throws UserError with line and column on bad syntax, unknown names and types that do not fit.
Expr parse_expr(Lexer& lexer, const ExprScope& scope = {});
/// The same from a text that holds nothing else.
Expr parse_expr(std::string_view text, const ExprScope& scope = {});

}  // namespace tw
