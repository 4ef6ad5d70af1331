// pow(a, b) = a^b, broadcast; the inputs are numbers of any types, the result has the type of a. No attributes.
//   float a              in a's type
//   integer a, integer b exact, wrapped to a's width; a negative b gives 0 unless a is 1 or -1 (truncated reciprocal)
//   integer a, float b   in f32, truncated; within 1e-5 of a whole number it is that number
#include <cmath>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

constexpr double kWholeTolerance = 1e-5;  // relative: some 80 ulp of f32, more than the error of an f32 power

Types infer(const OpCall& call) {
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  require(call, !a.type.is_bool() && !b.type.is_bool(), "the inputs are {} and {}, expected numbers", to_string(a),
          to_string(b));
  Shape shape;
  require(call, broadcast_shapes(a.shape, b.shape, &shape), "the shapes {} and {} do not broadcast", to_string(a.shape),
          to_string(b.shape));
  return {{a.type, shape}};
}

// Square and multiply over the bits of the exponent. A power over 2^64 wraps to what the low 6 bits and evenness
// decide: an even base is 0 from exponent 64 on; odd bases would need all bits, so an exponent of 64 or more counts as
// 63 + its parity, which is right for the bases 0, 1, -1 and every even one.
Expr te_int_power(const Expr& base, const Expr& exponent) {
  const DataType type = base.type();
  const Expr one = imm(type, 1);
  const Expr zero = imm(type, 0);
  const Expr odd = floor_mod(exponent, Expr(2)) == Expr(1);
  const Expr size = select(Expr(64) <= exponent, select(odd, Expr(63), Expr(62)), exponent);
  Expr result = one;
  Expr power = base;
  for (int bit = 0; bit < 6; ++bit) {
    const Expr set = floor_mod(floor_div(size, Expr(int64_t{1} << bit)), Expr(2)) == Expr(1);
    result = result * select(set, power, one);
    if (bit < 5) power = power * power;
  }
  const Expr sign = select(odd, base, one);  // of bases 1 and -1
  const Expr unit = type.is_signed_int() ? base == one || base == imm(type, -1) : base == one;
  return select(exponent < Expr(0), select(unit, sign, zero), result);
}

Expr te_power(const Expr& a, const Expr& b) {
  const DataType type = a.type();
  if (type.is_float()) return call("pow", {a, cast(type, b)});
  if (!b.type().is_float()) return te_int_power(a, cast(DataType::i64(), b));
  const Expr exact = call("pow", {cast(DataType::f32(), a), cast(DataType::f32(), b)});
  const Expr whole = unary(Op::kRound, exact);
  const Expr near = unary(Op::kAbs, exact - whole) <= float_imm(kWholeTolerance) * unary(Op::kAbs, exact);
  return cast(type, select(near, whole, unary(Op::kTrunc, exact)));
}

Tensors te_pow(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const TensorType out = infer(call)[0];
  return {builder.compute(tensor_name(call), out.shape, [&](const Exprs& i) {
    const Expr a = read(inputs[0], broadcast_indices(i, inputs[0].shape));
    const Expr b = read(inputs[1], broadcast_indices(i, inputs[1].shape));
    return cast(out.type, te_power(a, b));
  })};
}

int64_t int_power(int64_t base, int64_t exponent) {
  const bool odd = exponent % 2 != 0;
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (odd ? -1 : 1) : 0;
  uint64_t result = 1;
  for (int64_t n = std::min<int64_t>(exponent, 62 + (odd ? 1 : 0)); n > 0; --n) result *= static_cast<uint64_t>(base);
  return static_cast<int64_t>(result);
}

int64_t mixed_power(int64_t base, double exponent) {
  const double exact = std::pow(static_cast<double>(base), exponent);
  const double whole = std::nearbyint(exact);
  const double value = std::fabs(exact - whole) <= kWholeTolerance * std::fabs(exact) ? whole : std::trunc(exact);
  return std::fabs(value) < 9.2e18 ? static_cast<int64_t>(value) : 0;
}

void reference(const OpCall&, Refs inputs, RefTensor& y) {
  const RefTensor& a = inputs[0];
  const RefTensor& b = inputs[1];
  const std::vector<int64_t> at_a = offsets(y.type.shape, broadcast_strides(a.type.shape, y.type.shape));
  const std::vector<int64_t> at_b = offsets(y.type.shape, broadcast_strides(b.type.shape, y.type.shape));
  for (int64_t i = 0; i < y.type.elements(); ++i) {
    if (a.is_float()) {
      y.floats[i] = std::pow(a.floats[at_a[i]], b.at(at_b[i]));
    } else {
      const int64_t base = a.ints[at_a[i]];
      const int64_t power = b.is_float() ? mixed_power(base, b.floats[at_b[i]]) : int_power(base, b.ints[at_b[i]]);
      y.ints[i] = graph::wrap_int(power, y.type.type);
    }
  }
}

}  // namespace

std::vector<OpDef> pow_ops() {
  return {{"pow", OpClass::kElementwise, infer, te_pow, filled<infer, reference>, {2, 2}}};
}

}  // namespace tw::ops
