// Guards leave the main part of their loops: those of statements, and those of padded reads.
#include <algorithm>

#include "expr/affine.h"
#include "lower/passes.h"
#include "lower/simplify.h"
#include "support/math.h"

namespace tw::lower {
namespace {

// Inclusive ranges of the variables bound between the loop under study and the guard.
using Ranges = std::vector<std::pair<std::string, Interval>>;

// On which side of its threshold a guard is known: where it holds, or where it fails, for all values of inner
// variables.
enum class Known : uint8_t { kHolds, kFails };

// The place t in the range of `name` such that `guard` (a < b or a <= b, linear) is `known` for every value on one side
// of it, whatever the inner variables are. Nothing when the guard depends on other variables.
std::optional<int64_t> threshold(const Expr& guard, const std::string& name, const Ranges& inner, Known known) {
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
    const auto found = std::ranges::find_if(inner, [&](const auto& r) { return r.first == term; });
    if (found == inner.end()) return std::nullopt;
    const std::pair<int64_t, int64_t> ends = std::minmax(factor * found->second.lo, factor * found->second.hi);
    rest += known == Known::kHolds ? ends.second : ends.first;
  }
  const int64_t bound = guard.op() == Op::kLt ? -1 : 0;
  if (coefficient > 0) return floor_div(bound - rest, coefficient) + 1;  // holds before
  if (coefficient < 0) return -floor_div(bound - rest, -coefficient);    // holds from there on
  return std::nullopt;
}

// Looks for the best place to split the range of one variable: the smallest threshold inside (lo, hi] from which or up
// to which a guard always holds; else one beyond which a guard never does, since what it guards is not needed there.
class SplitFinder {
 public:
  enum class Look : uint8_t { kGuards, kReads };

  SplitFinder(const std::string& name, Interval range, const Analyzer& analyzer, Look look)
      : name_(name), range_(range), analyzer_(analyzer), look_(look) {}

  std::optional<int64_t> run(const Stmts& body) {
    visit(body);
    return best_ ? best_ : needless_;
  }

 private:
  // An if around whole loops costs nothing beside them, and would be copied with them.
  static bool holds_loops(const Stmts& stmts) {
    return std::ranges::any_of(stmts, [](const Stmt& s) {
      const bool is_loop = s->kind == StmtKind::kFor;
      const bool whole = is_loop && (s->for_kind == loop::ForKind::kSerial || loop::is_thread_loop(s));
      return whole || (is_loop && loop::is_bulk_loop(s)) || holds_loops(s->body);
    });
  }

  void visit(const Stmts& stmts) {
    for (const Stmt& s : stmts) {
      if (loop::is_bulk_loop(s)) continue;  // TMA fills up what it does not read
      const bool is_guard = s->kind == StmtKind::kIf && s->otherwise.empty();
      if (look_ == Look::kGuards && is_guard && !holds_loops(s->body)) guard(s->predicate);
      if (look_ == Look::kReads && s->value) reads(s->value);
      const std::optional<Interval> bound = bound_range(s);
      if (bound) inner_.push_back({s->var, *bound});
      visit(s->body);
      visit(s->otherwise);
      if (bound) inner_.pop_back();
    }
  }

  void guard(const Expr& condition) {
    if (condition.op() == Op::kAnd) {
      for (const Expr& part : condition->args) guard(part);
      return;
    }
    // A guard that never holds for all inner values is one of an inner loop.
    keep_smallest(best_, threshold(condition, name_, inner_, Known::kHolds));
    if (look_ == Look::kGuards) keep_smallest(needless_, threshold(condition, name_, inner_, Known::kFails));
  }

  void keep_smallest(std::optional<int64_t>& kept, const std::optional<int64_t>& t) const {
    if (t && *t > range_.lo && *t <= range_.hi && (!kept || *t < *kept)) kept = t;
  }

  // Reads of padded values: a select between what is read and what is beyond the edge.
  void reads(const Expr& value) {
    tw::visit(value, [&](const Expr& e) {
      if (e.op() == Op::kSelect) guard(e.arg(0));
    });
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
  Look look_;
  Ranges inner_;
  std::optional<int64_t> best_;
  std::optional<int64_t> needless_;
};

constexpr int kMaxReadSplits = 24;  // of one kernel: every split copies code

class GuardSplitter {
 public:
  explicit GuardSplitter(Analyzer& analyzer) : analyzer_(analyzer) {}

  Stmts run(const loop::Kernel& kernel) {
    if (kernel.tile_var.empty()) return all(kernel.body);
    return let(kernel.tile_var, {0, kernel.tiles - 1}, kernel.body);
  }

 private:
  // Where to split the range of a variable: because of a guard, or, within the kernel's budget, of a padded read.
  std::optional<int64_t> split_point(const Stmts& body, const std::string& name, Interval range, loop::ForKind kind) {
    const auto at = SplitFinder(name, range, analyzer_, SplitFinder::Look::kGuards).run(body);
    if (at || kind != loop::ForKind::kSerial || read_splits_ == kMaxReadSplits) return at;
    const auto read = SplitFinder(name, range, analyzer_, SplitFinder::Look::kReads).run(body);
    read_splits_ += read ? 1 : 0;
    return read;
  }

  Stmts part_of_loop(const Stmt& s, Interval part, const std::string& suffix) {
    const std::string name = s->var + suffix;
    const int64_t extent = part.hi - part.lo + 1;
    const Expr value = extent == 1 ? int_imm(part.lo) : var(name) + int_imm(part.lo);
    Stmts body = renamed_copy(s->body, {{s->var, value}}, suffix);
    return with_range(analyzer_, name, {0, extent - 1}, [&]() -> Stmts {
      body = simplify_stmts(body, analyzer_);
      if (extent == 1) return all(body);
      // The tail may have guards of its own.
      return serial(loop::make_for_like(s, name, extent, std::move(body)));
    });
  }

  Stmts serial(const Stmt& s) {
    const Interval range{0, s->extent - 1};
    // Threads of a tile run side by side: a second loop of some of them would come after the first one. A bulk copy is
    // one instruction.
    const bool whole = loop::is_thread_loop(s) || loop::is_bulk_loop(s);
    const auto at = whole ? std::nullopt : split_point(s->body, s->var, range, s->for_kind);
    if (!at) {
      Stmts body = with_range(analyzer_, s->var, range, [&] { return all(s->body); });
      return body.empty() ? Stmts{} : Stmts{loop::make_for_like(s, s->var, s->extent, std::move(body))};
    }
    Stmts out = part_of_loop(s, {0, *at - 1}, "");
    append(out, part_of_loop(s, {*at, s->extent - 1}, "t"));
    return out;
  }

  // A coordinate of the tile: the range is split by an if instead of two loops.
  Stmts let(const std::string& name, Interval range, const Stmts& body) {
    const auto at = split_point(body, name, range, loop::ForKind::kSerial);
    if (!at) return with_range(analyzer_, name, range, [&] { return all(body); });
    return split_by_if(name, range, *at, body);
  }

  bool is_split_at(const Stmt& s, const std::string& name, Interval range, int64_t at) const {
    const auto finds = [&](SplitFinder::Look look) { return SplitFinder(name, range, analyzer_, look).run({s}) == at; };
    return finds(SplitFinder::Look::kGuards) || finds(SplitFinder::Look::kReads);
  }

  // `body` for name < at and for the rest. Only what needs it comes twice: the statements from the first to the last
  // one with such a guard. The condition stands inside lets and allocations, but around loops.
  Stmts split_by_if(const std::string& name, Interval range, int64_t at, const Stmts& body) {
    const auto needs = [&](const Stmt& s) { return is_split_at(s, name, range, at); };
    const auto first = std::ranges::find_if(body, needs);
    const auto end = std::find_if(body.rbegin(), body.rend(), needs).base();
    TW_CHECK(first < end, "no guard of {} at {}", name, at);
    Stmts out = let(name, range, {body.begin(), first});
    const Stmt& s = *first;
    const bool nests =
        s->kind == StmtKind::kAllocate || (s->kind == StmtKind::kLet && s->value.type() == DataType::i64());
    if (first + 1 == end && nests && std::ranges::any_of(s->body, needs)) {
      out.push_back(split_inside(name, range, at, s));
    } else {
      const Stmts both(first, end);
      Stmts main = part_of_let(name, {range.lo, at - 1}, both);
      Stmts tail = part_of_let(name, {at, range.hi}, renamed_copy(both, {}, "t"));
      out.push_back(loop::make_if(var(name) < int_imm(at), std::move(main), std::move(tail)));
    }
    append(out, let(name, range, {end, body.end()}));
    return out;
  }

  Stmt split_inside(const std::string& name, Interval range, int64_t at, const Stmt& s) {
    return with_range(analyzer_, name, range, [&] {
      if (s->kind == StmtKind::kAllocate)
        return loop::make_allocate(s->allocated, split_by_if(name, range, at, s->body));
      const Interval inner = analyzer_.bounds(s->value);
      const Stmts split = with_range(analyzer_, s->var, inner, [&] { return split_by_if(name, range, at, s->body); });
      return loop::make_let(s->var, s->value, let(s->var, inner, split));
    });
  }

  Stmts part_of_let(const std::string& name, Interval range, Stmts body) {
    const bool point = range.lo == range.hi;
    if (point) body = loop::substitute(body, {{name, int_imm(range.lo)}});
    return with_range(analyzer_, name, range, [&] {
      const Stmts simple = simplify_stmts(body, analyzer_);
      return point ? all(simple) : let(name, range, simple);
    });
  }

  Stmts statement(const Stmt& s) {
    if (s->kind == StmtKind::kFor) return serial(s);
    if (s->kind == StmtKind::kLet) {
      const bool index = s->value.type() == DataType::i64();
      Stmts body = index ? let(s->var, analyzer_.bounds(s->value), s->body) : all(s->body);
      return {loop::make_let(s->var, s->value, std::move(body))};
    }
    if (s->kind == StmtKind::kIf) return {loop::make_if(s->predicate, all(s->body), all(s->otherwise))};
    if (s->kind == StmtKind::kAllocate) return {loop::make_allocate(s->allocated, all(s->body))};
    return s->kind == StmtKind::kBlock ? all(s->body) : Stmts{s};
  }

  Stmts all(const Stmts& stmts) {
    Stmts out;
    for (const Stmt& s : stmts) append(out, statement(s));
    return out;
  }

  Analyzer& analyzer_;
  int read_splits_ = 0;
};

}  // namespace

loop::Program split_guards(const loop::Program& program, const LowerOptions&) {
  return with_bodies(program, [](const loop::Kernel& kernel) {
    Analyzer analyzer;
    if (!kernel.tile_var.empty()) analyzer.bind(kernel.tile_var, 0, kernel.tiles);
    return GuardSplitter(analyzer).run(kernel);
  });
}

}  // namespace tw::lower
