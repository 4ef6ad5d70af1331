#include "tests/harness/lane_words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/storage.h"
#include "expr/elementary.h"
#include "support/error.h"
#include "support/math.h"

namespace tw {
namespace {

// s, or its neighbour towards the sign of `rest` when s was rounded and its last bit is even. Rounding the result to at
// most 51 bits then equals rounding s + rest once (Boldo and Melquiond 2008: round to odd).
double round_to_odd(double s, double rest) {
  const bool even = (std::bit_cast<uint64_t>(s) & 1) == 0;
  if (rest == 0 || !even || !std::isfinite(s)) return s;
  return std::nextafter(s, rest > 0 ? INFINITY : -INFINITY);
}

// a * b + c of floats whose product is exact in double, to odd.
double fma_to_odd(double a, double b, double c) {
  const double p = a * b;
  const double s = p + c;
  // What the addition dropped (Knuth's two-sum).
  const double c_part = s - p;
  return round_to_odd(s, (p - (s - c_part)) + (c - c_part));
}

double unsigned_to_double(int64_t bits) { return static_cast<double>(static_cast<uint64_t>(bits)); }

// The double nearest to an integer, to odd, so that rounding it on to a narrower float is one rounding.
double int_to_odd(ScalarType from, int64_t x) {
  __extension__ using Wide = __int128;
  const bool is_u64 = from == ScalarType::kU64;
  const Wide exact = is_u64 ? static_cast<Wide>(static_cast<uint64_t>(x)) : static_cast<Wide>(x);
  const double near = is_u64 ? unsigned_to_double(x) : static_cast<double>(x);
  return round_to_odd(near, static_cast<double>(exact - static_cast<Wide>(near)));
}

double float_binary(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kMin:
      return std::isnan(a) || a < b ? a : b;
    case Op::kMax:
      return std::isnan(a) || a > b ? a : b;
    default:
      throw InternalError("operation not defined on floats");
  }
}

bool compare(Op op, auto a, auto b) {
  switch (op) {
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    default:
      return a <= b;
  }
}

int64_t unsigned_binary(Op op, uint64_t a, uint64_t b) {
  switch (op) {
    case Op::kDiv:
    case Op::kFloorDiv:
      return static_cast<int64_t>(a / b);
    case Op::kFloorMod:
      return static_cast<int64_t>(a % b);
    case Op::kMin:
      return static_cast<int64_t>(std::min(a, b));
    case Op::kMax:
      return static_cast<int64_t>(std::max(a, b));
    default:
      return static_cast<int64_t>(a >> b);  // kShiftRight
  }
}

int64_t signed_binary(Op op, int64_t a, int64_t b) {
  // The quotient INT64_MIN / -1 wraps; C++ leaves it undefined.
  if (b == -1 && (op == Op::kDiv || op == Op::kFloorDiv)) return wrapping_mul(a, -1);
  switch (op) {
    case Op::kDiv:
      return a / b;
    case Op::kFloorDiv:
      return floor_div(a, b);
    case Op::kFloorMod:
      return b == -1 ? 0 : floor_mod(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    default:
      return a >> b;  // kShiftRight
  }
}

int64_t int_binary(Op op, ScalarType type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kAdd:
      return wrapping_add(a, b);
    case Op::kSub:
      return static_cast<int64_t>(x - y);
    case Op::kMul:
      return wrapping_mul(a, b);
    case Op::kAnd:
      return a & b;
    case Op::kOr:
      return a | b;
    case Op::kXor:
      return a ^ b;
    case Op::kShiftLeft:
      return static_cast<int64_t>(x << y);
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kFloorMod:
    case Op::kMin:
    case Op::kMax:
    case Op::kShiftRight:
      return DataType(type).is_signed_int() ? signed_binary(op, a, b) : unsigned_binary(op, x, y);
    default:
      throw InternalError("operation not defined on integers");
  }
}

}  // namespace

Word apply_unary(Op op, ScalarType type, Word x) {
  if (!is_float(type)) {
    const int64_t negated = wrapping_mul(x.i, -1);
    if (op == Op::kNot) return int_word(type == ScalarType::kBool ? 1 - x.i : wrap_to(type, ~x.i));
    if (op == Op::kNeg) return int_word(wrap_to(type, negated));
    const bool flips = op == Op::kAbs && DataType(type).is_signed_int() && x.i < 0;
    return int_word(flips ? wrap_to(type, negated) : x.i);
  }
  switch (op) {
    case Op::kNeg:
      return float_word(-x.f);
    case Op::kAbs:
      return float_word(std::fabs(x.f));
    case Op::kFloor:
      return float_word(std::floor(x.f));
    case Op::kCeil:
      return float_word(std::ceil(x.f));
    case Op::kRound:
      return float_word(std::nearbyint(x.f));
    case Op::kTrunc:
      return float_word(std::trunc(x.f));
    default:
      throw InternalError("operation not defined on floats");
  }
}

Word apply_binary(Op op, ScalarType type, Word a, Word b) {
  const bool compares = op >= Op::kEq && op <= Op::kLe;
  if (is_float(type)) {
    if (compares) return int_word(compare(op, a.f, b.f));
    return float_word(round_to(type, float_binary(op, a.f, b.f)));
  }
  if (compares && type == ScalarType::kU64) {
    return int_word(compare(op, static_cast<uint64_t>(a.i), static_cast<uint64_t>(b.i)));
  }
  if (compares) return int_word(compare(op, a.i, b.i));
  return int_word(wrap_to(type, int_binary(op, type, a.i, b.i)));
}

Word apply_fma(ScalarType type, Word a, Word b, Word c) {
  if (type == ScalarType::kF64) return float_word(std::fma(a.f, b.f, c.f));
  return float_word(round_to(type, fma_to_odd(a.f, b.f, c.f)));
}

Word apply_cast(ScalarType to, ScalarType from, Word x) {
  if (is_float(from)) return is_float(to) ? float_word(round_to(to, x.f)) : int_word(saturate_to(to, x.f));
  if (!is_float(to)) return int_word(wrap_to(to, x.i));
  if (to != ScalarType::kF64) return float_word(round_to(to, int_to_odd(from, x.i)));
  return float_word(from == ScalarType::kU64 ? unsigned_to_double(x.i) : static_cast<double>(x.i));
}

Word apply_bitcast(ScalarType to, ScalarType from, Word x) {
  int64_t bits = x.i;
  if (from == ScalarType::kF16) bits = f16_bits(x.f);
  if (from == ScalarType::kBF16) bits = bf16_bits(x.f);
  if (from == ScalarType::kF32) bits = std::bit_cast<int32_t>(static_cast<float>(x.f));
  if (to == ScalarType::kF16) return float_word(f16_value(static_cast<uint16_t>(bits)));
  if (to == ScalarType::kBF16) return float_word(bf16_value(static_cast<uint16_t>(bits)));
  if (to == ScalarType::kF32) return float_word(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return int_word(wrap_to(to, bits));  // f64 and 64-bit integers share the word
}

Word apply_reduce(Op op, ScalarType type, Word* lanes, int count) {
  const Op step = lane_operation(op);
  const auto combine = [&](int into, int from) { lanes[into] = apply_binary(step, type, lanes[into], lanes[from]); };
  combine_lanes(
      count, [&](int last) { combine(0, last); },
      [&](int half) {
        for (int i = 0; i < half; ++i) combine(i, i + half);
      });
  return lanes[0];
}

const char* undefined_reason(Op op, ScalarType type, Word b) {
  if (is_float(type)) return nullptr;
  const bool divides = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kFloorMod;
  if (divides && b.i == 0) return "integer division by zero";
  const bool shifts = op == Op::kShiftLeft || op == Op::kShiftRight;
  if (shifts && (b.i < 0 || b.i >= DataType(type).bits())) return "shift by the width of the type or more";
  return nullptr;
}

Word apply_call(ScalarType type, double (*function)(const double*), const Word* args, size_t count) {
  std::array<double, kMostOperands> numbers = {};
  for (size_t k = 0; k < count; ++k) numbers.at(k) = is_float(type) ? args[k].f : static_cast<double>(args[k].i);
  const double result = function(numbers.data());
  return is_float(type) ? float_word(round_to(type, result)) : int_word(static_cast<int64_t>(result));
}

}  // namespace tw
