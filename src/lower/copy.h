// Copies of statements in one walk; loop and let variables of a copy get names of their own.
#pragma once
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::lower {

/// A copy of `stmts` to stand beside the original: `values` in place of the variables around them, and `suffix` behind
/// the name of every loop and let inside.
std::vector<loop::Stmt> renamed_copy(const std::vector<loop::Stmt>& stmts, VarMap values, std::string suffix);

/// `stmts` with a copy of the body for every iteration of a loop marked unrolled, its variable a constant. Names inside
/// the copy of iteration i end in "ui", after the endings that loops further inside give.
std::vector<loop::Stmt> unrolled(const std::vector<loop::Stmt>& stmts);

}  // namespace tw::lower
