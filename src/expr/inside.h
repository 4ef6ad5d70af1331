// Conditions that keep indices inside of a tensor.
#pragma once
#include <vector>

#include "core/shape.h"
#include "expr/analyzer.h"

namespace tw {

/// Whether `condition` says no more than that indices are in a tensor of `shape`; a null one says nothing.
bool all_inside(const Expr& condition, const std::vector<Expr>& indices, const Shape& shape, const Analyzer& ranges);

}  // namespace tw
