// Guards leave the main part of their loops.
#include <algorithm>

#include "lower/copy.h"
#include "lower/passes.h"
#include "lower/simplify.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::lower {
namespace {

using loop::Stmt;
using loop::StmtKind;
using Stmts = std::vector<Stmt>;

// Inclusive ranges of the variables bound between the loop under study and the guard.
using Ranges = std::vector<std::pair<std::string, Interval>>;

// The first value t of `name` from which `guard` (a < b or a <= b, linear) is not always true: it holds for every value
// in [lo, t) whatever the inner variables are. Nothing when the guard depends on other variables, or falls with `name`.
std::optional<int64_t> threshold(const Expr& guard, const std::string& name, const Ranges& inner) {
  if (guard.type().is_vector() || (guard.op() != Op::kLt && guard.op() != Op::kLe)) return std::nullopt;
  // a < b  <=>  a - b <= -1;  a <= b  <=>  a - b <= 0
  const auto linear = as_linear(guard.arg(0) - guard.arg(1));
  if (!linear) return std::nullopt;
  int64_t rest = linear->constant;
  int64_t coefficient = 0;
  for (const auto& [term, factor] : linear->terms) {
    if (term == name) {
      coefficient = factor;
      continue;
    }
    const auto found = std::find_if(inner.begin(), inner.end(), [&](const auto& r) { return r.first == term; });
    if (found == inner.end()) return std::nullopt;
    rest += std::max(factor * found->second.lo, factor * found->second.hi);
  }
  if (coefficient <= 0) return std::nullopt;
  const int64_t bound = guard.op() == Op::kLt ? -1 : 0;
  return floor_div(bound - rest, coefficient) + 1;
}

// Looks for the best place to split the range of one variable: the smallest threshold inside (lo, hi].
class SplitFinder {
 public:
  SplitFinder(const std::string& name, Interval range, const Analyzer& analyzer)
      : name_(name), range_(range), analyzer_(analyzer) {}

  std::optional<int64_t> run(const Stmts& body) {
    visit(body);
    return best_;
  }

 private:
  void visit(const Stmts& stmts) {
    for (const Stmt& s : stmts) {
      if (s->kind == StmtKind::kIf && s->otherwise.empty()) {
        const auto t = threshold(s->predicate, name_, inner_);
        // A guard that never holds for all inner values is one of an inner loop.
        if (t && *t > range_.lo && *t <= range_.hi && (!best_ || *t < *best_)) best_ = t;
      }
      const std::optional<Interval> bound = bound_range(s);
      if (bound) inner_.push_back({s->var, *bound});
      visit(s->body);
      visit(s->otherwise);
      if (bound) inner_.pop_back();
    }
  }

  // The range of the variable that a loop, or a let that takes the tile apart, binds.
  std::optional<Interval> bound_range(const Stmt& s) const {
    if (s->kind == StmtKind::kFor) return Interval{0, s->extent - 1};
    if (s->kind != StmtKind::kLet || s->value.type() != DataType::i64()) return std::nullopt;
    const Interval range = analyzer_.bounds(s->value);
    if (range.lo <= Interval::kMin || range.hi >= Interval::kMax) return std::nullopt;
    return range;
  }

  const std::string& name_;
  Interval range_;
  const Analyzer& analyzer_;
  Ranges inner_;
  std::optional<int64_t> best_;
};

std::optional<int64_t> split_point(const Stmts& body, const std::string& name, Interval range,
                                   const Analyzer& analyzer) {
  return SplitFinder(name, range, analyzer).run(body);
}

Stmts split_all(const Stmts& stmts, Analyzer& analyzer);
Stmts split_for(const Stmt& s, Analyzer& analyzer);

Stmts part_of_loop(const Stmt& s, Interval part, const std::string& suffix, Analyzer& analyzer) {
  const std::string name = s->var + suffix;
  const int64_t extent = part.hi - part.lo + 1;
  const Expr value = extent == 1 ? int_imm(part.lo) : var(name) + int_imm(part.lo);
  Stmts body = renamed_copy(s->body, {{s->var, value}}, suffix);
  return with_range(analyzer, name, {0, extent - 1}, [&]() -> Stmts {
    body = simplify_stmts(body, analyzer);
    if (extent == 1) return split_all(body, analyzer);
    // The tail may have guards of its own.
    return split_for(loop::make_for(name, extent, s->for_kind, std::move(body)), analyzer);
  });
}

Stmts split_for(const Stmt& s, Analyzer& analyzer) {
  const Interval range{0, s->extent - 1};
  const auto at = split_point(s->body, s->var, range, analyzer);
  if (!at) {
    Stmts body = with_range(analyzer, s->var, range, [&] { return split_all(s->body, analyzer); });
    return body.empty() ? Stmts{} : Stmts{loop::make_for(s->var, s->extent, s->for_kind, std::move(body))};
  }
  Stmts out = part_of_loop(s, {0, *at - 1}, "", analyzer);
  for (Stmt& tail : part_of_loop(s, {*at, s->extent - 1}, "t", analyzer)) out.push_back(std::move(tail));
  return out;
}

// A coordinate of the tile: the range is split by an if instead of two loops.
Stmts split_let(const std::string& name, Interval range, const Stmts& body, Analyzer& analyzer) {
  const auto at = split_point(body, name, range, analyzer);
  if (!at) return with_range(analyzer, name, range, [&] { return split_all(body, analyzer); });
  Stmts main = with_range(analyzer, name, {range.lo, *at - 1},
                          [&] { return split_all(simplify_stmts(body, analyzer), analyzer); });
  const Stmts rest = renamed_copy(body, *at == range.hi ? VarMap{{name, int_imm(*at)}} : VarMap{}, "t");
  Stmts tail = with_range(analyzer, name, {*at, range.hi}, [&] {
    const Stmts simple = simplify_stmts(rest, analyzer);
    return *at == range.hi ? split_all(simple, analyzer) : split_let(name, {*at, range.hi}, simple, analyzer);
  });
  return {loop::make_if(var(name) < int_imm(*at), std::move(main), std::move(tail))};
}

Stmts split_stmt(const Stmt& s, Analyzer& analyzer) {
  switch (s->kind) {
    case StmtKind::kFor:
      return split_for(s, analyzer);
    case StmtKind::kLet:
      if (s->value.type() != DataType::i64()) return {loop::make_let(s->var, s->value, split_all(s->body, analyzer))};
      return {loop::make_let(s->var, s->value, split_let(s->var, analyzer.bounds(s->value), s->body, analyzer))};
    case StmtKind::kIf:
      return {loop::make_if(s->predicate, split_all(s->body, analyzer), split_all(s->otherwise, analyzer))};
    case StmtKind::kAllocate:
      return {loop::make_allocate(s->allocated, split_all(s->body, analyzer))};
    case StmtKind::kBlock:
      return split_all(s->body, analyzer);
    default:
      return {s};
  }
}

Stmts split_all(const Stmts& stmts, Analyzer& analyzer) {
  Stmts out;
  for (const Stmt& s : stmts) {
    for (Stmt& part : split_stmt(s, analyzer)) out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

loop::Program split_guards(const loop::Program& program, const LowerOptions&) {
  loop::Program out = program;
  for (loop::Kernel& kernel : out.kernels) {
    Analyzer analyzer;
    if (kernel.tile_var.empty()) {
      kernel.body = split_all(kernel.body, analyzer);
    } else {
      analyzer.bind(kernel.tile_var, 0, kernel.tiles);
      kernel.body = split_let(kernel.tile_var, {0, kernel.tiles - 1}, kernel.body, analyzer);
    }
  }
  return out;
}

}  // namespace tw::lower
