// Seeded random expressions for property tests.
#pragma once
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "expr/analyzer.h"
#include "expr/expr.h"

namespace tw::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[between(0, static_cast<int64_t>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

struct NamedRange {
  std::string name;
  int64_t lo;
  int64_t extent;
};

/// An i64 expression of the shapes that tiling and layouts yield, over `ranges`.
inline Expr random_index(Random& random, const std::vector<NamedRange>& ranges, int depth) {
  const std::vector<int64_t> factors = {1, 2, 3, 4, 5, 7, 8, 12, 14, 16, 28, 32, 49, 64};
  if (depth == 0 || random.chance(10)) {
    return random.chance(75) ? var(random.pick(ranges).name) : int_imm(random.between(-20, 20));
  }
  const auto sub = [&] { return random_index(random, ranges, depth - 1); };
  switch (random.between(0, 11)) {
    case 0:
    case 1:
    case 2:
      return sub() + sub();
    case 3:
      return sub() - sub();
    case 4:
    case 5:
      return sub() * int_imm(random.pick(factors) * (random.chance(15) ? -1 : 1));
    case 6:
    case 7:
      return floor_div(sub(), int_imm(random.pick(factors)));
    case 8:
    case 9:
      return floor_mod(sub(), int_imm(random.pick(factors)));
    case 10:
      return random.chance(50) ? min(sub(), sub()) : max(sub(), sub());
    default: {
      const Expr a = sub(), b = sub(), c = sub(), d = sub();
      return select(random.chance(50) ? a < b : a == b, c, d);
    }
  }
}

/// A bool expression over the same.
inline Expr random_condition(Random& random, const std::vector<NamedRange>& ranges, int depth) {
  const auto sub = [&] { return random_condition(random, ranges, depth - 1); };
  if (depth > 0 && random.chance(50)) {
    switch (random.between(0, 2)) {
      case 0:
        return sub() && sub();
      case 1:
        return sub() || sub();
      default:
        return logical_not(sub());
    }
  }
  const Expr a = random_index(random, ranges, 3);
  const Expr b = random.chance(60) ? int_imm(random.between(-50, 200)) : random_index(random, ranges, 2);
  switch (random.between(0, 3)) {
    case 0:
      return a < b;
    case 1:
      return a <= b;
    case 2:
      return a == b;
    default:
      return a != b;
  }
}

inline std::vector<NamedRange> random_ranges(Random& random) {
  const std::vector<int64_t> extents = {1, 2, 3, 4, 5, 7, 8, 14, 16, 28, 49, 64, 100};
  std::vector<NamedRange> ranges;
  for (const char* name : {"i", "j", "k", "l"}) {
    ranges.push_back({name, random.chance(75) ? 0 : random.between(-9, 9), random.pick(extents)});
  }
  return ranges;
}

inline std::unordered_map<std::string, int64_t> random_point(Random& random, const std::vector<NamedRange>& ranges) {
  std::unordered_map<std::string, int64_t> point;
  for (const NamedRange& r : ranges) {
    // The ends of a range are where simplification goes wrong.
    point[r.name] = random.chance(20)   ? r.lo
                    : random.chance(25) ? r.lo + r.extent - 1
                                        : random.between(r.lo, r.lo + r.extent - 1);
  }
  return point;
}

}  // namespace tw::testing
