// The ends of what an expression can be while some of its variables run.
#pragma once
#include <set>
#include <string>

#include "expr/analyzer.h"

namespace tw {

/// The most, or the least, that `e` can be over the values of `inner`, in terms of its other variables; null where that
/// is not known. `ranges` knows the variables.
Expr most_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges);
Expr least_over(const std::set<std::string>& inner, const Expr& e, const Analyzer& ranges);

}  // namespace tw
