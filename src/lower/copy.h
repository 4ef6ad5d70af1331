// Copies of statements in one walk; loop and let variables of a copy get names of their own.
#pragma once
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::lower {

/// A copy of `stmts` to stand beside the original: `values` in place of the variables around them, and `suffix` behind
/// the name of every loop and let inside.
std::vector<loop::Stmt> renamed_copy(const std::vector<loop::Stmt>& stmts, VarMap values, std::string suffix);

}  // namespace tw::lower
