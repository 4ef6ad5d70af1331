// Elementwise operators of one input: y[i] = f(x[i]). One row of kRows each: adding an operator is adding a row.
//
// op                                                          attributes (float unless said; default)       types of x
// exp log sqrt reciprocal sin cos tan asin acos atan sinh cosh asinh acosh atanh erf
// sigmoid tanh softplus softsign mish hard_swish gelu gelu_tanh floor ceil round    -                       float
// elu celu                                                    alpha (1)                                     float
// selu                                                        alpha (1.67326319), gamma (1.05070102)        float
// leaky_relu                                                  alpha (0.01)                                  float
// thresholded_relu, silu (x * sigmoid(alpha x))               alpha (1)                                     float
// hard_sigmoid                                                alpha (0.2), beta (0.5)                       float
// shrink                                                      lambd (0.5), bias (0)                         number
// clip                                                        min (none), max (none): float or int          number
// relu neg abs sign                                           -                                             number
// is_nan -> bool                                              -                                             float
// nan_to_zero (0 where x is NaN)                              -                                             float
// is_inf -> bool                                              detect_positive, detect_negative (int, 1)     float
// not                                                         -                                             bool
// bitwise_not                                                 -                                             integer
// identity                                                    -                                             any
// round: ties to even. sign(0) = 0. relu, clip, sign, abs keep NaN.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/families.h"
#include "ops/rows.h"

namespace tw::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Param {
  std::string_view name;
  double fallback = 0;
};
using Values = std::array<double, 2>;

struct Row {
  std::string_view name;
  Domain domain;
  Expr (*te)(const Expr& x, const Values& p);
  double (*reference)(double x, const Values& p);                  // floats
  int64_t (*int_reference)(int64_t x, const Values& p) = nullptr;  // integers and bools
  std::array<Param, 2> params = {};
  Gives gives = Gives::kSame;
};

template <double (*function)(double)>
double apply(double x, const Values&) {
  return function(x);
}

Expr te_clip(const Expr& x, const Values& p) {
  Expr y = x;
  if (p[0] != -kInf) y = max(y, lit(x, p[0]));
  if (p[1] != kInf) y = min(y, lit(x, p[1]));
  return y;
}
Expr te_shrink(const Expr& x, const Values& p) {
  return select(x < lit(x, -p[0]), x + lit(x, p[1]), select(lit(x, p[0]) < x, x - lit(x, p[1]), lit(x, 0)));
}
Expr te_sign(const Expr& x, const Values&) {
  if (x.type().is_unsigned_int()) return min(x, lit(x, 1));
  return select(lit(x, 0) < x, lit(x, 1), select(x < lit(x, 0), lit(x, -1), x));
}
Expr te_gelu(const Expr& x, const Values&) {
  return lit(x, 0.5) * x * (lit(x, 1) + call("erf", {x * lit(x, std::numbers::sqrt2 / 2)}));
}
// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): one call, and no cancellation where x < 0.
Expr te_gelu_tanh(const Expr& x, const Values&) {
  const double scale = 2 * std::sqrt(2 / std::numbers::pi);
  return x * call("sigmoid", {lit(x, scale) * (x + lit(x, 0.044715) * x * x * x)});
}
Expr te_is_inf(const Expr& x, const Values& p) {
  Expr found = int_imm(0, DataType::boolean());
  if (p[0] != 0) found = found || x == lit(x, kInf);
  if (p[1] != 0) found = found || x == lit(x, -kInf);
  return found;
}
template <Op op>
Expr te_op(const Expr& x, const Values&) {
  return unary(op, x);
}

double ref_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double ref_softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double ref_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double ref_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
template <typename T>
T ref_shrink(T x, const Values& p) {
  const T lambd = static_cast<T>(p[0]);
  const T bias = static_cast<T>(p[1]);
  return x < -lambd ? x + bias : x > lambd ? x - bias : 0;
}
template <typename T>
T ref_clip(T x, const Values& p) {
  if (x != x) return x;  // of bounds, too, a NaN is the result
  if (p[0] != -kInf && !(x >= static_cast<T>(p[0]))) x = static_cast<T>(p[0]);
  if (p[1] != kInf && !(x <= static_cast<T>(p[1]))) x = static_cast<T>(p[1]);
  return x;
}
int64_t ref_negate(int64_t x, const Values&) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

/// A name as a template argument.
template <size_t size>
struct Name {
  char text[size];
  consteval Name(const char (&from)[size]) { std::copy_n(from, size, text); }
};
template <Name name>
Expr te_call(const Expr& x, const Values&) {
  return call(name.text, {x});
}

// clang-format off
const Row kRows[] = {
    {"exp", Domain::kFloat, te_call<"exp">, apply<std::exp>},
    {"log", Domain::kFloat, te_call<"log">, apply<std::log>},
    {"sqrt", Domain::kFloat, te_call<"sqrt">, apply<std::sqrt>},
    {"sin", Domain::kFloat, te_call<"sin">, apply<std::sin>},
    {"cos", Domain::kFloat, te_call<"cos">, apply<std::cos>},
    {"tan", Domain::kFloat, te_call<"tan">, apply<std::tan>},
    {"asin", Domain::kFloat, te_call<"asin">, apply<std::asin>},
    {"acos", Domain::kFloat, te_call<"acos">, apply<std::acos>},
    {"atan", Domain::kFloat, te_call<"atan">, apply<std::atan>},
    {"sinh", Domain::kFloat, te_call<"sinh">, apply<std::sinh>},
    {"cosh", Domain::kFloat, te_call<"cosh">, apply<std::cosh>},
    {"asinh", Domain::kFloat, te_call<"asinh">, apply<std::asinh>},
    {"acosh", Domain::kFloat, te_call<"acosh">, apply<std::acosh>},
    {"atanh", Domain::kFloat, te_call<"atanh">, apply<std::atanh>},
    {"erf", Domain::kFloat, te_call<"erf">, apply<std::erf>},
    {"tanh", Domain::kFloat, te_call<"tanh">, apply<std::tanh>},
    {"sigmoid", Domain::kFloat, te_call<"sigmoid">, apply<ref_sigmoid>},
    {"softplus", Domain::kFloat, te_call<"softplus">, apply<ref_softplus>},
    {"floor", Domain::kFloat, te_op<Op::kFloor>, apply<std::floor>},
    {"ceil", Domain::kFloat, te_op<Op::kCeil>, apply<std::ceil>},
    {"round", Domain::kFloat, te_op<Op::kRound>, apply<std::nearbyint>},
    {"gelu", Domain::kFloat, te_gelu,
     [](double x, const Values&) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
    {"gelu_tanh", Domain::kFloat, te_gelu_tanh, apply<ref_gelu_tanh>},
    {"reciprocal", Domain::kFloat,
     [](const Expr& x, const Values&) { return lit(x, 1) / x; },
     [](double x, const Values&) { return 1 / x; }},
    {"softsign", Domain::kFloat,
     [](const Expr& x, const Values&) { return x / (lit(x, 1) + unary(Op::kAbs, x)); },
     [](double x, const Values&) { return x / (1 + std::fabs(x)); }},
    {"mish", Domain::kFloat,
     [](const Expr& x, const Values&) { return x * call("tanh", {call("softplus", {x})}); },
     [](double x, const Values&) { return x * std::tanh(ref_softplus(x)); }},
    {"hard_swish", Domain::kFloat,
     [](const Expr& x, const Values&) { return x * max(lit(x, 0), min(lit(x, 1), x * lit(x, 1.0 / 6) + lit(x, 0.5))); },
     [](double x, const Values&) { return x * std::fmax(0, std::fmin(1, x / 6 + 0.5)); }},
    {"hard_sigmoid", Domain::kFloat,
     [](const Expr& x, const Values& p) { return max(lit(x, 0), min(lit(x, 1), x * lit(x, p[0]) + lit(x, p[1]))); },
     [](double x, const Values& p) { return std::isnan(x) ? x : std::fmax(0, std::fmin(1, x * p[0] + p[1])); },
     nullptr, {{{"alpha", 0.2}, {"beta", 0.5}}}},
    {"elu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return select(x < lit(x, 0), lit(x, p[0]) * call("expm1", {x}), x); },
     [](double x, const Values& p) { return x < 0 ? p[0] * std::expm1(x) : x; },
     nullptr, {{{"alpha", 1}}}},
    {"celu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return select(x < lit(x, 0), lit(x, p[0]) * call("expm1", {x / lit(x, p[0])}), x); },
     [](double x, const Values& p) { return x < 0 ? p[0] * std::expm1(x / p[0]) : x; },
     nullptr, {{{"alpha", 1}}}},
    {"selu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return lit(x, p[1]) * select(x < lit(x, 0), lit(x, p[0]) * call("expm1", {x}), x); },
     [](double x, const Values& p) { return p[1] * (x < 0 ? p[0] * std::expm1(x) : x); },
     nullptr, {{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}}},
    {"leaky_relu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return select(x < lit(x, 0), lit(x, p[0]) * x, x); },
     [](double x, const Values& p) { return x < 0 ? p[0] * x : x; },
     nullptr, {{{"alpha", 0.01}}}},
    {"thresholded_relu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return select(lit(x, p[0]) < x, x, lit(x, 0)); },
     [](double x, const Values& p) { return x > p[0] ? x : 0; },
     nullptr, {{{"alpha", 1}}}},
    {"silu", Domain::kFloat,
     [](const Expr& x, const Values& p) { return x * call("sigmoid", {p[0] == 1 ? x : x * lit(x, p[0])}); },
     [](double x, const Values& p) { return x * ref_sigmoid(p[0] * x); },
     nullptr, {{{"alpha", 1}}}},
    {"shrink", Domain::kNumber, te_shrink, ref_shrink<double>, ref_shrink<int64_t>, {{{"lambd", 0.5}, {"bias", 0}}}},
    {"clip", Domain::kNumber, te_clip, ref_clip<double>, ref_clip<int64_t>, {{{"min", -kInf}, {"max", kInf}}}},
    {"relu", Domain::kNumber,
     [](const Expr& x, const Values&) { return max(x, lit(x, 0)); },
     [](double x, const Values&) { return x < 0 ? 0 : x; },
     [](int64_t x, const Values&) { return x < 0 ? 0 : x; }},
    {"neg", Domain::kNumber, te_op<Op::kNeg>, [](double x, const Values&) { return -x; }, ref_negate},
    {"abs", Domain::kNumber,
     [](const Expr& x, const Values&) { return x.type().is_unsigned_int() ? x : unary(Op::kAbs, x); },
     apply<std::fabs>, [](int64_t x, const Values& p) { return x < 0 ? ref_negate(x, p) : x; }},
    {"sign", Domain::kNumber, te_sign, apply<ref_sign>, [](int64_t x, const Values&) -> int64_t { return (x > 0) - (x < 0); }},
    {"is_nan", Domain::kFloat,
     [](const Expr& x, const Values&) { return x != x; },
     [](double x, const Values&) { return std::isnan(x) ? 1.0 : 0.0; },
     nullptr, {}, Gives::kBool},
    {"nan_to_zero", Domain::kFloat,
     [](const Expr& x, const Values&) { return select(x != x, imm(x.type(), 0), x); },
     [](double x, const Values&) { return std::isnan(x) ? 0.0 : x; }},
    {"is_inf", Domain::kFloat, te_is_inf,
     [](double x, const Values& p) { return (x == kInf && p[0] != 0) || (x == -kInf && p[1] != 0) ? 1.0 : 0.0; },
     nullptr, {{{"detect_positive", 1}, {"detect_negative", 1}}}, Gives::kBool},
    {"not", Domain::kBool, te_op<Op::kNot>, nullptr, [](int64_t x, const Values&) -> int64_t { return x == 0; }},
    {"bitwise_not", Domain::kInteger, te_op<Op::kNot>, nullptr, [](int64_t x, const Values&) { return ~x; }},
    {"identity", Domain::kAny,
     [](const Expr& x, const Values&) { return x; },
     [](double x, const Values&) { return x; },
     [](int64_t x, const Values&) { return x; }},
};
// clang-format on

const Row& row_of(const OpCall& call) { return row_in(kRows, call); }

// ONNX attributes are f32: a default is rounded like a given value.
Values values_of(const Row& row, const OpCall& call) {
  Values values{};
  for (size_t k = 0; k < values.size(); ++k) {
    const std::string key(row.params[k].name);
    values[k] = static_cast<float>(row.params[k].fallback);
    if (key.empty() || !call.node.has_attr(key)) continue;
    const graph::Attr& attr = call.node.attrs.at(key);
    const int64_t* whole = std::get_if<int64_t>(&attr);
    values[k] = whole ? static_cast<double>(*whole) : call.node.float_attr(key);
  }
  return values;
}

Types infer(const OpCall& call) {
  const Row& row = row_of(call);
  const TensorType& x = call.inputs[0];
  require(call, accepts(row.domain, x.type), "the input is {}, which this operator does not take", to_string(x));
  return {{row.gives == Gives::kBool ? DataType::boolean() : x.type, x.shape}};
}

Tensors te_unary(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Row& row = row_of(call);
  const Values values = values_of(row, call);
  const DataType type = row.gives == Gives::kBool ? DataType::boolean() : inputs[0].type;
  return {builder.compute(tensor_name(call), inputs[0].shape,
                          [&](const Exprs& i) { return cast(type, row.te(read(inputs[0], i), values)); })};
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Row& row = row_of(call);
  const Values values = values_of(row, call);
  const RefTensor& x = inputs[0];
  const int64_t count = y.type.elements();
  if (x.is_float() && y.is_float()) {
    for (int64_t i = 0; i < count; ++i) y.floats[i] = row.reference(x.floats[i], values);
  } else if (x.is_float()) {
    for (int64_t i = 0; i < count; ++i) y.ints[i] = row.reference(x.floats[i], values) != 0;
  } else {
    for (int64_t i = 0; i < count; ++i) y.ints[i] = graph::wrap_int(row.int_reference(x.ints[i], values), y.type.type);
  }
}

}  // namespace

std::vector<OpDef> unary_ops() {
  return mapped(kRows, [](const Row& row) -> OpDef {
    return {row.name, OpClass::kElementwise, infer, te_unary, filled<infer, reference>};
  });
}

}  // namespace tw::ops
