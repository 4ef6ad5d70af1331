// noise_uniform(x, seed i64[], step i64[]): y[e] = x[e] + span (u[e] - 1/2), u[e] = (w >> 8) 2^-24 with w word e mod 4
// of counter e / 4 (draws.h) and e the element's row-major number: from x - span / 2 on, below x + span / 2.
//
// noise_normal(x, seed, step): y[e] = x[e] + scale sqrt(-2 ln a) cos(2 pi b), a = ((w >> 8) + 1) 2^-24 and b = (v >> 8)
// 2^-24 of words 2 (e mod 2) and 2 (e mod 2) + 1 of counter e / 2.
//
// x is a float of any shape, the mean; without seed and step: y = x. Attributes: span, scale (1); stream and seed.
// Sources: Box & Muller, A Note on the Generation of Random Normal Deviates, 1958; ONNX, RandomUniform, RandomNormal.
#include <cmath>
#include <numbers>

#include "ops/families.h"
#include "ops/gradient/draws.h"
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

constexpr int64_t kDroppedBits = 8;
constexpr double kUnit = 0x1p-24;  // of what is left of a word

Types infer(const OpCall& call) {
  require_float(call, 0);
  check_seed(call, 1);
  return {call.inputs[0]};
}

// cos(2 pi b) of b from 0 to 1, as a sine of what is exact near its zeros.
double turned(double b) { return std::sin(std::numbers::pi * (std::fabs(2 * b - 1) - 0.5)); }

// What the numbers are multiplied by.
double size_of(const OpCall& call) { return call.node.float_attr_or(call.node.has_attr("span") ? "span" : "scale", 1); }

double uniform(std::span<const uint32_t> words, int64_t e) { return (words[e % 4] >> kDroppedBits) * kUnit - 0.5; }

double normal(std::span<const uint32_t> words, int64_t e) {
  const size_t first = 2 * (e % 2);
  const double a = ((words[first] >> kDroppedBits) + 1) * kUnit, b = (words[first + 1] >> kDroppedBits) * kUnit;
  return std::sqrt(-2 * std::log(a)) * turned(b);
}

using Drawn = double (*)(std::span<const uint32_t> words, int64_t e);

template <Drawn drawn, int64_t per_counter>
void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  y.floats = inputs[0].floats;
  if (!call.has(1)) return;
  const Draw draw(call.node);
  const double size = size_of(call);
  std::array<uint32_t, 4> words = {};
  for (int64_t e = 0; e < y.type.elements(); ++e) {
    if (e % per_counter == 0) words = words_of(draw, e / per_counter, inputs.subspan(1));
    y.floats[e] += size * drawn(words, e);
  }
}

// Words and numbers in the type that the maths is done in.
class TeNumbers {
 public:
  TeNumbers(const OpCall& call, const Tensors& inputs, DataType type)
      : draw_(call.node), source_{inputs[1]({}), inputs[2]({})}, type_(type) {}

  Expr bits(const Expr& counter, const Expr& word) const {
    const Expr kept =
        binary(Op::kShiftRight, te_word(draw_, counter, word, source_), int_imm(kDroppedBits, ScalarType::kU32));
    return cast(type_, cast(DataType::i32(), kept));
  }
  Expr number(double value) const { return imm(type_, value); }

 private:
  Draw draw_;
  DrawSource source_;
  DataType type_;
};

Expr te_uniform(const TeNumbers& numbers, const Expr& e) {
  return numbers.bits(floor_div(e, 4), floor_mod(e, 4)) * numbers.number(kUnit) - numbers.number(0.5);
}

Expr te_normal(const TeNumbers& numbers, const Expr& e) {
  const Expr counter = floor_div(e, 2), first = floor_mod(e, 2) * Expr(2);
  const Expr a = (numbers.bits(counter, first) + numbers.number(1)) * numbers.number(kUnit);
  const Expr b = numbers.bits(counter, first + Expr(1)) * numbers.number(kUnit);
  const Expr size = tw::call("sqrt", {numbers.number(-2) * tw::call("log", {a})});
  const Expr angle = unary(Op::kAbs, numbers.number(2) * b - numbers.number(1)) - numbers.number(0.5);
  return size * tw::call("sin", {numbers.number(std::numbers::pi) * angle});
}

using TeDrawn = Expr (*)(const TeNumbers&, const Expr& e);

template <TeDrawn drawn>
Tensors te_noise(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    if (!call.has(1)) return x(i);
    const TeNumbers numbers(call, inputs, math_type(x.type));
    return cast(x.type, read(x, i) + numbers.number(size_of(call)) * drawn(numbers, row_major(i, x.shape)));
  })};
}

// What is added is no function of x.
Terms gradient(const GradientCall& g) {
  Terms results(g.inputs.size());
  results[0] = g.dy();
  return results;
}

}  // namespace

std::vector<GradientRow> noise_gradients() {
  return {by_rule("noise_uniform", gradient), by_rule("noise_normal", gradient)};
}

std::vector<OpDef> noise_ops() {
  return {
      {"noise_uniform",
       OpClass::kElementwise,
       infer,
       te_noise<te_uniform>,
       filled<infer, reference<uniform, 4>>,
       {1, 3}},
      {"noise_normal", OpClass::kElementwise, infer, te_noise<te_normal>, filled<infer, reference<normal, 2>>, {1, 3}}};
}

}  // namespace tw::ops
