// Products with a constant, folded.
#pragma once
#include "expr/expr.h"

namespace tw {

/// `e` * `factor`, of f32: the factor goes into constants that are factors already, into the terms of sums and into
/// what selects choose from, as long as nothing is computed more often. Constants stay finite.
Expr scaled(const Expr& e, double factor);

/// The positive constant, a factor in `e`, of which all is a multiple that selects choose, beside constants; 1 where
/// there is none.
double common_factor(const Expr& e);

/// `e` / `factor`, its common factor: what it multiplies as it is. Constants stay finite; those of -65536 or less,
/// which masks leave, become the next power of two.
Expr without_factor(const Expr& e, double factor);

}  // namespace tw
