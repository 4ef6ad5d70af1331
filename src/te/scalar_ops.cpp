#include "te/scalar_ops.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/error.h"
#include "support/math.h"

namespace tw::te {
namespace {

double apply_float(Op op, double a, double b) {
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
      return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
    case Op::kMax:
      return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
    default:
      throw InternalError(fmt::format("operator {} on floats", static_cast<int>(op)));
  }
}

bool compare(Op op, bool less, bool same) {
  if (op == Op::kEq) return same;
  if (op == Op::kNe) return !same;
  return op == Op::kLt ? less : less || same;
}

uint64_t divide(Op op, DataType type, int64_t a, int64_t b) {
  TW_CHECK(b != 0, "integer division by zero");
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  if (type.is_unsigned_int()) return op == Op::kFloorMod ? x % y : x / y;
  if (b == -1) return op == Op::kFloorMod ? 0 : -x;
  return static_cast<uint64_t>(op == Op::kDiv ? a / b : op == Op::kFloorDiv ? floor_div(a, b) : floor_mod(a, b));
}

// Unsigned 64-bit values use all bits of the signed one.
bool less(DataType type, int64_t a, int64_t b) {
  return type.is_unsigned_int() ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

uint64_t apply_int(Op op, DataType type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kAdd:
      return x + y;
    case Op::kSub:
      return x - y;
    case Op::kMul:
      return x * y;
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kFloorMod:
      return divide(op, type, a, b);
    case Op::kMin:
      return less(type, b, a) ? y : x;
    case Op::kMax:
      return less(type, a, b) ? y : x;
    case Op::kAnd:
      return x & y;
    case Op::kOr:
      return x | y;
    case Op::kXor:
      return x ^ y;
    case Op::kShiftLeft:
      return x << y;
    case Op::kShiftRight:
      return type.is_signed_int() ? static_cast<uint64_t>(a >> b) : x >> y;
    default:
      throw InternalError(fmt::format("operator {} on integers", static_cast<int>(op)));
  }
}

double apply_float_unary(Op op, double x) {
  switch (op) {
    case Op::kNeg:
      return -x;
    case Op::kAbs:
      return std::fabs(x);
    case Op::kFloor:
      return std::floor(x);
    case Op::kCeil:
      return std::ceil(x);
    case Op::kRound:
      return std::nearbyint(x);
    case Op::kTrunc:
      return std::trunc(x);
    default:
      throw InternalError(fmt::format("operator {} on a float", static_cast<int>(op)));
  }
}

// Truncates and saturates; 2^63 and 2^64 are exact in f64.
int64_t float_to_int(double x, DataType to) {
  if (std::isnan(x)) return 0;
  const double t = std::trunc(x);
  const int bits = to.is_signed_int() ? to.bits() - 1 : to.bits();
  const double end = std::ldexp(1.0, bits);
  if (to.is_unsigned_int()) {
    if (t <= 0) return 0;
    if (t >= end) return bits == 64 ? -1 : (int64_t{1} << bits) - 1;
    return static_cast<int64_t>(static_cast<uint64_t>(t));
  }
  if (t >= end) return bits == 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  if (t < -end) return bits == 63 ? INT64_MIN : -(int64_t{1} << bits);
  return static_cast<int64_t>(t);
}

uint64_t float_bits(double x, DataType type) {
  switch (type.scalar()) {
    case ScalarType::kF16:
      return f16_bits(x);
    case ScalarType::kBF16:
      return bf16_bits(x);
    case ScalarType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(x));
    default:
      return std::bit_cast<uint64_t>(x);
  }
}

double float_of_bits(uint64_t bits, DataType type) {
  switch (type.scalar()) {
    case ScalarType::kF16:
      return f16_value(static_cast<uint16_t>(bits));
    case ScalarType::kBF16:
      return bf16_value(static_cast<uint16_t>(bits));
    case ScalarType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

}  // namespace

int64_t wrap(int64_t value, DataType type) {
  if (type.is_bool()) return value != 0;
  const int unused = 64 - type.bits();
  const auto top = static_cast<int64_t>(static_cast<uint64_t>(value) << unused);
  return type.is_signed_int() ? top >> unused : static_cast<int64_t>(static_cast<uint64_t>(top) >> unused);
}

Scalar apply_unary(Op op, DataType operand, Scalar x) {
  if (operand.is_float()) return {.f = apply_float_unary(op, x.f)};
  if (operand.is_bool()) {
    TW_CHECK(op == Op::kNot, "operator {} on a bool", static_cast<int>(op));
    return {.i = !x.i};
  }
  const uint64_t negated = -static_cast<uint64_t>(x.i);
  switch (op) {
    case Op::kNeg:
      return {.i = wrap(static_cast<int64_t>(negated), operand)};
    case Op::kAbs:
      return {.i = less(operand, x.i, 0) ? wrap(static_cast<int64_t>(negated), operand) : x.i};
    case Op::kNot:
      return {.i = wrap(~x.i, operand)};
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
      return x;
    default:
      throw InternalError(fmt::format("operator {} on an integer", static_cast<int>(op)));
  }
}

Scalar apply_binary(Op op, DataType operand, Scalar a, Scalar b) {
  if (op == Op::kEq || op == Op::kNe || op == Op::kLt || op == Op::kLe) {
    if (!operand.is_float()) return {.i = compare(op, less(operand, a.i, b.i), a.i == b.i)};
    return {.i = compare(op, a.f < b.f, a.f == b.f)};
  }
  if (operand.is_float()) return {.f = apply_float(op, a.f, b.f)};
  return {.i = wrap(static_cast<int64_t>(apply_int(op, operand, a.i, b.i)), operand)};
}

Scalar cast_scalar(DataType from, DataType to, Scalar x) {
  if (to.is_float()) {
    if (from.is_float()) return x;
    return {.f = from.is_unsigned_int() ? static_cast<double>(static_cast<uint64_t>(x.i)) : static_cast<double>(x.i)};
  }
  if (to.is_bool()) return {.i = from.is_float() ? x.f != 0 : x.i != 0};
  return {.i = from.is_float() ? float_to_int(x.f, to) : wrap(x.i, to)};
}

Scalar bitcast_scalar(DataType from, DataType to, Scalar x) {
  const uint64_t bits = from.is_float() ? float_bits(x.f, from) : static_cast<uint64_t>(x.i);
  if (to.is_float()) return {.f = float_of_bits(bits, to)};
  return {.i = wrap(static_cast<int64_t>(bits), to)};
}

}  // namespace tw::te
