// Ranges of integers.
#pragma once
#include <cstdint>

namespace tw {

/// All integers lo..hi, both included. Unbounded ends are kMin / kMax.
struct Interval {
  static constexpr int64_t kMin = INT64_MIN / 4;
  static constexpr int64_t kMax = INT64_MAX / 4;
  int64_t lo = kMin;
  int64_t hi = kMax;
  bool is_point() const { return lo == hi; }
};

}  // namespace tw
