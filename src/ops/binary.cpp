// Elementwise operators of two inputs, broadcast to each other by numpy's rule: y[i] = f(a[i], b[i]). Both inputs have
// one type. One row of kRows each. No attributes.
//
// add sub mul div min max mod fmod           numbers; div truncates on integers and gives 0 for a divisor 0;
//                                            mod has the divisor's sign (integers), fmod the dividend's; x mod 0 is 0
//                                            of integers, NaN of floats, whose fmod is exact
// and or xor                                 bools
// bitwise_and bitwise_or bitwise_xor
// shift_left shift_right                     integers; an amount of the width or more, or below 0, moves every bit out:
//                                            0, or the sign (-1 or 0) of a signed number moved right
// equal -> bool                              any type
// less less_equal greater greater_equal -> bool   numbers
// prelu                                      a where a >= 0, else a * b
// min and max give NaN when either side is NaN.
#include <cmath>

#include "ops/families.h"
#include "ops/rows.h"

namespace tw::ops {
namespace {

struct Row {
  std::string_view name;
  Domain domain;
  Expr (*te)(const Expr& a, const Expr& b);
  double (*reference)(double a, double b);                        // floats
  int64_t (*int_reference)(int64_t a, int64_t b, DataType type);  // integers and bools
  Gives gives = Gives::kSame;
};

// a op b for integer division and remainder, where b = 0 gives 0 and b = -1 the wrapped -a (or 0): the hardware traps
// on both, and a vectorised select computes both of its sides.
Expr guarded(Op op, const Expr& a, const Expr& b, const Expr& for_minus_one) {
  const Expr zero = lit(b, 0);
  if (b.type().is_unsigned_int()) return select(b == zero, zero, binary(op, a, select(b == zero, lit(b, 1), b)));
  const Expr minus_one = lit(b, -1);
  const Expr divisor = select(b == zero || b == minus_one, lit(b, 1), b);
  return select(b == zero, zero, select(b == minus_one, for_minus_one, binary(op, a, divisor)));
}
Expr te_div(const Expr& a, const Expr& b) { return a.type().is_float() ? a / b : guarded(Op::kDiv, a, b, -a); }
Expr te_mod(const Expr& a, const Expr& b) { return guarded(Op::kFloorMod, a, b, lit(b, 0)); }
Expr te_fmod(const Expr& a, const Expr& b) {
  if (a.type().is_float()) return call("fmod", {a, b});
  return select(b == lit(b, 0), lit(b, 0), a - guarded(Op::kDiv, a, b, -a) * b);
}

template <typename Function>
int64_t wrapping(int64_t a, int64_t b, Function function) {
  return static_cast<int64_t>(function(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}
bool is_u64(DataType type) { return type.scalar() == ScalarType::kU64; }
int64_t int_less(int64_t a, int64_t b, DataType type) {
  return is_u64(type) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}
int64_t int_div(int64_t a, int64_t b, DataType type) {
  if (b == 0) return 0;
  if (is_u64(type)) return wrapping(a, b, std::divides<>());
  return b == -1 ? wrapping(0, a, std::minus<>()) : a / b;
}
int64_t int_fmod(int64_t a, int64_t b, DataType type) {
  if (b == 0 || (b == -1 && !is_u64(type))) return 0;
  return is_u64(type) ? wrapping(a, b, std::modulus<>()) : a % b;
}
int64_t int_mod(int64_t a, int64_t b, DataType type) {
  const int64_t rest = int_fmod(a, b, type);
  return !is_u64(type) && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t int_shift_left(int64_t a, int64_t b, DataType type) {
  return b < 0 || b >= type.bits() ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t int_shift_right(int64_t a, int64_t b, DataType type) {
  const bool out = b < 0 || b >= type.bits();
  if (is_u64(type)) return out ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
  return a >> (out ? 63 : b);
}
template <Op op>
Expr te_shift(const Expr& a, const Expr& b) {
  const int last = a.type().bits() - 1;
  const bool sign = op == Op::kShiftRight && a.type().is_signed_int();
  return select(b < lit(b, 0) || lit(b, last) < b, sign ? binary(op, a, lit(a, last)) : lit(a, 0), binary(op, a, b));
}
double nan_or(double a, double b, double otherwise) { return std::isnan(a) || std::isnan(b) ? NAN : otherwise; }

// clang-format off
const Row kRows[] = {
    {"add", Domain::kNumber, [](const Expr& a, const Expr& b) { return a + b; },
     [](double a, double b) { return a + b; }, [](int64_t a, int64_t b, DataType) { return wrapping(a, b, std::plus<>()); }},
    {"sub", Domain::kNumber, [](const Expr& a, const Expr& b) { return a - b; },
     [](double a, double b) { return a - b; }, [](int64_t a, int64_t b, DataType) { return wrapping(a, b, std::minus<>()); }},
    {"mul", Domain::kNumber, [](const Expr& a, const Expr& b) { return a * b; },
     [](double a, double b) { return a * b; }, [](int64_t a, int64_t b, DataType) { return wrapping(a, b, std::multiplies<>()); }},
    {"div", Domain::kNumber, te_div, [](double a, double b) { return a / b; }, int_div},
    {"mod", Domain::kInteger, te_mod, nullptr, int_mod},
    {"fmod", Domain::kNumber, te_fmod, [](double a, double b) { return std::fmod(a, b); }, int_fmod},
    {"min", Domain::kNumber, [](const Expr& a, const Expr& b) { return min(a, b); },
     [](double a, double b) { return nan_or(a, b, a < b ? a : b); },
     [](int64_t a, int64_t b, DataType t) { return int_less(a, b, t) ? a : b; }},
    {"max", Domain::kNumber, [](const Expr& a, const Expr& b) { return max(a, b); },
     [](double a, double b) { return nan_or(a, b, a > b ? a : b); },
     [](int64_t a, int64_t b, DataType t) { return int_less(b, a, t) ? a : b; }},
    {"prelu", Domain::kNumber, [](const Expr& a, const Expr& b) { return select(a < lit(a, 0), a * b, a); },
     [](double a, double b) { return a < 0 ? a * b : a; },
     [](int64_t a, int64_t b, DataType t) { return a < 0 && !is_u64(t) ? wrapping(a, b, std::multiplies<>()) : a; }},
    {"and", Domain::kBool, [](const Expr& a, const Expr& b) { return a && b; },
     nullptr, [](int64_t a, int64_t b, DataType) { return a & b; }},
    {"or", Domain::kBool, [](const Expr& a, const Expr& b) { return a || b; },
     nullptr, [](int64_t a, int64_t b, DataType) { return a | b; }},
    {"xor", Domain::kBool, [](const Expr& a, const Expr& b) { return a != b; },
     nullptr, [](int64_t a, int64_t b, DataType) { return a ^ b; }},
    {"bitwise_and", Domain::kInteger, [](const Expr& a, const Expr& b) { return binary(Op::kAnd, a, b); },
     nullptr, [](int64_t a, int64_t b, DataType) { return a & b; }},
    {"bitwise_or", Domain::kInteger, [](const Expr& a, const Expr& b) { return binary(Op::kOr, a, b); },
     nullptr, [](int64_t a, int64_t b, DataType) { return a | b; }},
    {"bitwise_xor", Domain::kInteger, [](const Expr& a, const Expr& b) { return binary(Op::kXor, a, b); },
     nullptr, [](int64_t a, int64_t b, DataType) { return a ^ b; }},
    {"shift_left", Domain::kInteger, te_shift<Op::kShiftLeft>, nullptr, int_shift_left},
    {"shift_right", Domain::kInteger, te_shift<Op::kShiftRight>, nullptr, int_shift_right},
    {"equal", Domain::kAny, [](const Expr& a, const Expr& b) { return a == b; },
     [](double a, double b) { return a == b ? 1.0 : 0.0; }, [](int64_t a, int64_t b, DataType) -> int64_t { return a == b; }, Gives::kBool},
    {"less", Domain::kNumber, [](const Expr& a, const Expr& b) { return a < b; },
     [](double a, double b) { return a < b ? 1.0 : 0.0; }, int_less, Gives::kBool},
    {"less_equal", Domain::kNumber, [](const Expr& a, const Expr& b) { return a <= b; },
     [](double a, double b) { return a <= b ? 1.0 : 0.0; }, [](int64_t a, int64_t b, DataType t) { return 1 - int_less(b, a, t); }, Gives::kBool},
    {"greater", Domain::kNumber, [](const Expr& a, const Expr& b) { return b < a; },
     [](double a, double b) { return a > b ? 1.0 : 0.0; }, [](int64_t a, int64_t b, DataType t) { return int_less(b, a, t); }, Gives::kBool},
    {"greater_equal", Domain::kNumber, [](const Expr& a, const Expr& b) { return b <= a; },
     [](double a, double b) { return a >= b ? 1.0 : 0.0; }, [](int64_t a, int64_t b, DataType t) { return 1 - int_less(a, b, t); }, Gives::kBool},
};
// clang-format on

const Row& row_of(const OpCall& call) { return row_in(kRows, call); }

Types infer(const OpCall& call) {
  require_same_type(call, 0, 1);
  const Row& row = row_of(call);
  const DataType type = call.inputs[0].type;
  require(call, accepts(row.domain, type), "the inputs are {}, which this operator does not take", to_string(type));
  Shape shape;
  require(call, broadcast_shapes(call.inputs[0].shape, call.inputs[1].shape, &shape),
          "the shapes {} and {} do not broadcast", to_string(call.inputs[0].shape), to_string(call.inputs[1].shape));
  return {{row.gives == Gives::kBool ? DataType::boolean() : type, shape}};
}

Tensors te_binary(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Row& row = row_of(call);
  const TensorType out = infer(call)[0];
  return {builder.compute(tensor_name(call), out.shape, [&](const Exprs& i) {
    const Expr a = read(inputs[0], broadcast_indices(i, inputs[0].shape));
    const Expr b = read(inputs[1], broadcast_indices(i, inputs[1].shape));
    return cast(out.type, row.te(a, b));
  })};
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Row& row = row_of(call);
  const RefTensor& a = inputs[0];
  const RefTensor& b = inputs[1];
  const std::vector<int64_t> at_a = offsets(y.type.shape, broadcast_strides(a.type.shape, y.type.shape));
  const std::vector<int64_t> at_b = offsets(y.type.shape, broadcast_strides(b.type.shape, y.type.shape));
  for (int64_t i = 0; i < y.type.elements(); ++i) {
    if (!a.is_float()) {
      y.ints[i] = graph::wrap_int(row.int_reference(a.ints[at_a[i]], b.ints[at_b[i]], a.type.type), y.type.type);
    } else if (y.is_float()) {
      y.floats[i] = row.reference(a.floats[at_a[i]], b.floats[at_b[i]]);
    } else {
      y.ints[i] = row.reference(a.floats[at_a[i]], b.floats[at_b[i]]) != 0;
    }
  }
}

}  // namespace

std::vector<OpDef> binary_ops() {
  return mapped(kRows, [](const Row& row) -> OpDef {
    return {row.name, OpClass::kElementwise, infer, te_binary, filled<infer, reference>, {2, 2}};
  });
}

}  // namespace tw::ops
