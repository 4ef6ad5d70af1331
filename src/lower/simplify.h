// What several passes do with statements: simplified under known ranges, and copied in one walk.
#pragma once
#include "expr/analyzer.h"
#include "loop/loop.h"

namespace tw::lower {

/// `stmts` simplified where the variables around them have the ranges that `analyzer` knows.
std::vector<loop::Stmt> simplify_stmts(const std::vector<loop::Stmt>& stmts, Analyzer& analyzer);

/// Runs `body` with `name` bound to [lo, lo + extent), and restores the former range.
template <typename Body>
auto with_range(Analyzer& analyzer, const std::string& name, Interval range, const Body& body) {
  const Interval former = analyzer.bounds(var(name));
  analyzer.bind(name, range.lo, range.hi - range.lo + 1);
  auto result = body();
  if (former.lo == Interval::kMin && former.hi == Interval::kMax) {
    analyzer.unbind(name);
  } else {
    analyzer.bind(name, former.lo, former.hi - former.lo + 1);
  }
  return result;
}

/// A copy of `stmts` to stand beside the original: `values` in place of the variables around them, and `suffix` behind
/// the name of every loop and let inside.
std::vector<loop::Stmt> renamed_copy(const std::vector<loop::Stmt>& stmts, VarMap values, std::string suffix);

}  // namespace tw::lower
