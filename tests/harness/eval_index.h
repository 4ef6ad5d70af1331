// A small evaluator of index expressions: the reference that tests compare with.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "expr/expr.h"

namespace tw {

/// Value of the integer or bool expression e (false 0, true 1) where the variables have the given values; integers wrap
/// in their type. Vectors: the value of lane `lane`. Throws InternalError on floats, loads, unknown variables and
/// division by zero.
int64_t eval_index(const Expr& e, const std::unordered_map<std::string, int64_t>& variables, int lane = 0);

}  // namespace tw
