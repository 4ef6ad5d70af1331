// Operations that a target has no instruction for, as arithmetic that every target has.
#pragma once
#include "expr/expand.h"

namespace tw {

/// kFma as a product and a sum, each rounded: a * b + c.
Expr split_fma(const Expr& e, const Share& share = {});

/// An expression without the operations that `has` lacks. kFma of f32: through f64, where the product is exact (two
/// roundings, the first one to 53 bits). kFma of f64 stays: its arithmetic uses each operand many times, so that code
/// generation makes it. Roundings to integers: exact, signed zeros, infinities and NaN as the operations have them.
Expr expand_missing(const Expr& e, const Instructions& has, const Share& share = {});

}  // namespace tw
