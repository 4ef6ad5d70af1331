#include "tune/construct/distinct.h"

#include <algorithm>

namespace tw::tune {
namespace {

constexpr size_t kMostCandidates = 6;  // of families whose candidates differ little

}  // namespace

Candidates best_distinct(Candidates candidates) {
  std::ranges::stable_sort(candidates, {}, [](const Construction& c) { return c.predicted_ns; });
  Candidates distinct;
  for (Construction& candidate : candidates) {
    const bool known = std::ranges::any_of(distinct, [&](const Construction& c) { return is_same(c, candidate); });
    if (!known && distinct.size() < kMostCandidates) distinct.push_back(std::move(candidate));
  }
  return distinct;
}

}  // namespace tw::tune
