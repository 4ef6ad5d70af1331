// What expansions of expressions are told by whoever wants them.
#pragma once
#include <functional>

#include "expr/expr.h"

namespace tw {

/// Receives each value that an expansion uses more than once; returns an expression that stands for it (for instance
/// a load of a register buffer that a statement before has set). Values that stand in a branch of a select and hold
/// loads whose place varies come with the conditions around them: such loads may not be evaluated early.
using Share = std::function<Expr(const Expr&)>;

/// Receives a condition (bool, of one or several lanes) that usual operands meet in every lane; the expansion is right
/// where all of its conditions hold. Whoever takes it expands once more without, for all other operands.
using Usual = std::function<void(const Expr& condition)>;

}  // namespace tw
