// Expansions of elementary functions at many points, against references.
#pragma once
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "expr/expand.h"
#include "tape.h"

namespace tw::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

// |y - exact| in units in the last place of T around exact; 0 where y is what exact rounds to, infinite where one is
// NaN and the other not, or a zero has the wrong sign.
template <typename T, typename Wide>
double ulp_error(T y, Wide exact) {
  if (std::isnan(y) || std::isnan(exact)) return std::isnan(y) && std::isnan(exact) ? 0 : kInf;
  if (exact == 0) return y == 0 && std::signbit(y) == std::signbit(exact) ? 0 : kInf;
  if (y == static_cast<T>(exact)) return 0;
  if (std::isinf(y) || std::isinf(exact)) return kInf;
  using Limits = std::numeric_limits<T>;
  const int exponent = std::max(std::ilogb(exact), Limits::min_exponent - 1) - (Limits::digits - 1);
  return static_cast<double>(std::fabs(static_cast<Wide>(y) - exact) / std::ldexp(Wide(1), exponent));
}

inline Expr expanded(const std::string& name, int arity, DataType type) {
  std::vector<Expr> args(arity, var("y", type));
  args[0] = var("x", type);
  return expand_elementary(call(name, args));
}

struct Worst {
  double ulp = 0;
  double at[2] = {0, 0};
  double got = 0, wanted = 0;
};

// Runs `points` (pairs of operands) through the expansion; the largest error against `reference`.
template <typename T, typename Wide, typename Reference>
Worst worst_error(const Expr& e, const std::vector<std::array<T, 2>>& points, const Reference& reference) {
  Tape tape(e, {"x", "y"});
  std::vector<Tape::Block> in(2);
  Tape::Block out;
  Worst worst;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (size_t begin = 0; begin < points.size(); begin += Tape::kBlock) {
    const size_t count = std::min(Tape::kBlock, points.size() - begin);
    for (size_t i = 0; i < Tape::kBlock; ++i) {
      const auto& p = points[begin + std::min(i, count - 1)];
      for (int k = 0; k < 2; ++k) in[k][i] = std::bit_cast<Bits>(p[k]);
    }
    tape.eval(in, &out);
    for (size_t i = 0; i < count; ++i) {
      const auto& p = points[begin + i];
      const T y = std::bit_cast<T>(static_cast<Bits>(out[i]));
      const Wide exact = reference(p);
      const double ulp = ulp_error<T, Wide>(y, exact);
      if (ulp > worst.ulp)
        worst = {ulp,
                 {static_cast<double>(p[0]), static_cast<double>(p[1])},
                 static_cast<double>(y),
                 static_cast<double>(exact)};
    }
  }
  return worst;
}

template <typename T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           T(0.5),
                           T(1.5),
                           L::infinity(),
                           L::quiet_NaN(),
                           L::max(),
                           L::min(),
                           L::denorm_min(),
                           T(0.41421356),
                           T(2.4142135),
                           T(3.14159265),
                           T(1.57079632),
                           T(88.72283),
                           T(88.72284),
                           T(709.78),
                           T(103.97),
                           T(745.13),
                           std::nextafter(T(1), T(0)),
                           std::nextafter(T(1), T(2)),
                           std::nextafter(L::min(), T(0)),
                           T(9.01),
                           T(3.92),
                           T(1e30),
                           T(40),
                           T(22)};
  const size_t n = values.size();
  for (size_t i = 0; i < n; ++i) values.push_back(-values[i]);
  return values;
}

// f64 against the 64-bit mantissas of long double.
inline long double long_reference(const std::string& name, long double x) {
  if (name == "acos") return std::acos(x);
  if (name == "acosh") return std::acosh(x);
  if (name == "asin") return std::asin(x);
  if (name == "asinh") return std::asinh(x);
  if (name == "atan") return std::atan(x);
  if (name == "atanh") return std::atanh(x);
  if (name == "cos") return std::cos(x);
  if (name == "cosh") return std::cosh(x);
  if (name == "erf") return std::erf(x);
  if (name == "exp") return std::exp(x);
  if (name == "expm1") return std::expm1(x);
  if (name == "log") return std::log(x);
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "sin") return std::sin(x);
  if (name == "sinh") return std::sinh(x);
  if (name == "softplus") return std::fmax(x, 0.0L) * (std::isnan(x) ? x : 1) + std::log1p(std::exp(-std::fabs(x)));
  if (name == "sqrt") return std::sqrt(x);
  if (name == "tan") return std::tan(x);
  return std::tanh(x);
}

}  // namespace tw::testing
