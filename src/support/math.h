// Small integer arithmetic shared by all layers.
#pragma once
#include <cstdint>

namespace tw {

/// ceil(a / b) for b > 0 and a >= 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of b that is at least a; b > 0, a >= 0.
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// floor(a / b) for b != 0, rounding to minus infinity.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

/// a - b * floor_div(a, b): has the sign of b.
constexpr int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

}  // namespace tw
