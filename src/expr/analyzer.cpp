#include "expr/analyzer.h"

#include "expr/simplifier.h"

namespace tw {

void Analyzer::bind(const std::string& name, int64_t lo, int64_t extent) {
  ranges_[name] = make_interval(lo, static_cast<__int128>(lo) + extent - 1);
}

void Analyzer::unbind(const std::string& name) { ranges_.erase(name); }

Interval Analyzer::bounds(const Expr& e) const {
  Simplifier simplifier(ranges_);
  const Expr simple = simplifier.simplify(e);
  const Interval found = simplifier.bounds(simple);
  return simple.same(e) ? found : intersect(found, simplifier.bounds(e));
}

Expr Analyzer::simplify(const Expr& e) const { return Simplifier(ranges_).simplify(e); }

}  // namespace tw
