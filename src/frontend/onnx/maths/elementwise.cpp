// Elementwise arithmetic, comparisons, logic and casts, with numpy's broadcasting, and activation functions.
#include "frontend/onnx/converters.h"
#include "frontend/onnx/file/element_type.h"

namespace tw::frontend {
namespace {

// Before opset 7 broadcasting was asked for, and the second operand's dimensions began at an axis of the first.
ValueId old_second_operand(NodeContext& c) {
  if (c.int_or("broadcast", 0) == 0) {
    if (c.shape(0) != c.shape(1)) throw UserError("the shapes differ and broadcast is 0");
    return c.input(1);
  }
  const int64_t axis = c.int_or("axis", c.rank(0) - c.rank(1));
  const int64_t after = c.rank(0) - axis - c.rank(1);
  if (axis < 0 || after < 0) throw UserError("attribute 'axis' leaves no room for the second input");
  Shape shape = c.shape(1);
  shape.insert(shape.end(), after, 1);
  return c.emit().reshape(c.input(1), shape);
}

Converter binary(std::string_view op) {
  return [op](NodeContext& c) -> Outputs {
    const ValueId second = c.opset() < 7 ? old_second_operand(c) : c.input(1);
    return {c.emit().op(op, {c.input(0), second})};
  };
}

Outputs convert_mod(NodeContext& c) {
  const int64_t fmod = c.int_or("fmod", 0);
  if (fmod == 0 && c.type(0).type.is_float()) throw UserError("attribute 'fmod' must be 1 for floating-point inputs");
  return {c.emit().op(fmod != 0 ? "fmod" : "mod", {c.input(0), c.input(1)})};
}

Outputs convert_bit_shift(NodeContext& c) {
  const std::string direction = c.string_attr("direction");
  if (direction != "LEFT" && direction != "RIGHT") throw UserError("direction '{}' must be LEFT or RIGHT", direction);
  return {c.emit().op(direction == "LEFT" ? "shift_left" : "shift_right", {c.input(0), c.input(1)})};
}

ValueId fold_inputs(NodeContext& c, std::string_view op) {
  const std::vector<ValueId> inputs = c.all_inputs();
  ValueId result = inputs[0];
  for (size_t k = 1; k < inputs.size(); ++k) result = c.emit().op(op, {result, inputs[k]});
  return result;
}

Converter variadic(std::string_view op) {
  return [op](NodeContext& c) -> Outputs { return {fold_inputs(c, op)}; };
}

Outputs convert_mean(NodeContext& c) {
  const ValueId sum = fold_inputs(c, "add");
  const double count = static_cast<double>(c.num_inputs());
  return {count == 1 ? sum : c.emit().div(sum, c.emit().number(sum, count))};
}

// Before opset 11 the bounds are attributes; after, optional scalar inputs. Lower bound first, then upper.
Outputs convert_clip(NodeContext& c) {
  Emitter& e = c.emit();
  graph::Attrs bounds;
  if (c.opset() < 11) {
    for (const char* key : {"min", "max"}) {
      if (c.has_attr(key)) bounds[key] = c.float_or(key, 0);
    }
    return {bounds.empty() ? c.input(0) : e.op("clip", {c.input(0)}, std::move(bounds))};
  }
  ValueId x = c.input(0);
  bool known = true;
  for (const size_t k : {1, 2}) {
    if (!c.has(k)) continue;
    if (c.type(k).elements() != 1) throw UserError("bound {} must be a scalar", k == 1 ? "min" : "max");
    known = known && c.is_constant(k);
  }
  for (const size_t k : {1, 2}) {
    const std::string key = k == 1 ? "min" : "max";
    if (!c.has(k)) continue;
    if (known) {
      const graph::RefTensor bound = c.constant(k, key);
      bounds[key] = bound.is_float() ? graph::Attr(bound.floats[0]) : graph::Attr(bound.ints[0]);
    } else {
      x = e.op(k == 1 ? "max" : "min", {x, e.reshape(c.input(k), {})});
    }
  }
  return {bounds.empty() ? x : e.op("clip", {x}, std::move(bounds))};
}

// Conversions that only narrow floats differ from ours in `saturate` for 8-bit floats alone, which are not supported.
Outputs convert_cast(NodeContext& c) {
  c.ignore_attr("saturate");
  c.ignore_attr("round_mode");
  return {c.emit().cast(c.input(0), element_type(static_cast<int32_t>(c.int_attr("to")), "attribute 'to'"))};
}

Outputs convert_cast_like(NodeContext& c) {
  c.ignore_attr("saturate");
  c.ignore_attr("round_mode");
  return {c.emit().cast(c.input(0), c.type(1).type)};
}

Outputs convert_bit_cast(NodeContext& c) {
  const DataType to = element_type(static_cast<int32_t>(c.int_attr("to")), "attribute 'to'");
  return {c.emit().op("bitcast", {c.input(0)}, {{"to", to_string(to)}})};
}

Outputs convert_celu(NodeContext& c) {
  const double alpha = c.float_or("alpha", 1);
  if (alpha == 0) throw UserError("attribute 'alpha' must not be 0");
  return {c.emit().op("celu", {c.input(0)}, {{"alpha", alpha}})};
}

Outputs convert_gelu(NodeContext& c) {
  return {c.emit().op(c.choice("approximate", {"none", "tanh"}) == "none" ? "gelu" : "gelu_tanh", {c.input(0)})};
}

// The slope broadcasts one way to x; before opset 7 a slope of C elements is for each channel.
Outputs convert_prelu(NodeContext& c) {
  Emitter& e = c.emit();
  ValueId slope = c.input(1);
  if (c.opset() < 7 && c.rank(1) == 1 && c.rank(0) > 1) {
    Shape shape(c.rank(0) - 1, 1);
    shape[0] = c.shape(1)[0];
    slope = e.reshape(slope, shape);
  }
  Shape result;
  if (!broadcast_shapes(c.shape(0), e.shape(slope), &result) || result != c.shape(0)) {
    throw UserError("the slope {} does not broadcast to {}", to_string(e.shape(slope)), to_string(c.shape(0)));
  }
  return {e.op("prelu", {c.input(0), slope})};
}

}  // namespace

std::vector<ConverterRow> elementwise_rows() {
  return {
      {"Abs", 1, 0, plain("abs")},
      {"Acos", 7, 0, plain("acos")},
      {"Acosh", 9, 0, plain("acosh")},
      {"Asin", 7, 0, plain("asin")},
      {"Asinh", 9, 0, plain("asinh")},
      {"Atan", 7, 0, plain("atan")},
      {"Atanh", 9, 0, plain("atanh")},
      {"BitwiseNot", 18, 0, plain("bitwise_not")},
      {"Ceil", 1, 0, plain("ceil")},
      {"Cos", 7, 0, plain("cos")},
      {"Cosh", 9, 0, plain("cosh")},
      {"Erf", 9, 0, plain("erf")},
      {"Exp", 1, 0, plain("exp")},
      {"Floor", 1, 0, plain("floor")},
      {"IsInf", 10, 0, plain("is_inf", 1, {{"detect_negative", 1}, {"detect_positive", 1}})},
      {"IsNaN", 9, 0, plain("is_nan")},
      {"Log", 1, 0, plain("log")},
      {"Neg", 1, 0, plain("neg")},
      {"Not", 1, 0, plain("not")},
      {"Reciprocal", 1, 0, plain("reciprocal")},
      {"Round", 11, 0, plain("round")},
      {"Sign", 9, 0, plain("sign")},
      {"Sin", 7, 0, plain("sin")},
      {"Sinh", 9, 0, plain("sinh")},
      {"Sqrt", 1, 0, plain("sqrt")},
      {"Tan", 7, 0, plain("tan")},
      {"Tanh", 1, 0, plain("tanh")},
      {"Add", 1, 0, binary("add")},
      {"Sub", 1, 0, binary("sub")},
      {"Mul", 1, 0, binary("mul")},
      {"Div", 1, 0, binary("div")},
      {"And", 1, 0, binary("and")},
      {"Or", 1, 0, binary("or")},
      {"Xor", 1, 0, binary("xor")},
      {"Equal", 1, 0, binary("equal")},
      {"Greater", 1, 0, binary("greater")},
      {"Less", 1, 0, binary("less")},
      {"GreaterOrEqual", 12, 0, plain("greater_equal", 2)},
      {"LessOrEqual", 12, 0, plain("less_equal", 2)},
      {"BitwiseAnd", 18, 0, plain("bitwise_and", 2)},
      {"BitwiseOr", 18, 0, plain("bitwise_or", 2)},
      {"BitwiseXor", 18, 0, plain("bitwise_xor", 2)},
      {"BitShift", 11, 0, convert_bit_shift},
      {"Mod", 10, 0, convert_mod},
      {"Pow", 1, 0, binary("pow")},
      {"Max", 1, 0, variadic("max")},
      {"Min", 1, 0, variadic("min")},
      {"Sum", 1, 0, variadic("add")},
      {"Mean", 1, 0, convert_mean},
      {"Where", 9, 0, plain("where", 3)},
      {"Clip", 1, 0, convert_clip},
      {"Cast", 6, 0, convert_cast},
      {"CastLike", 15, 0, convert_cast_like},
      {"BitCast", 26, 0, convert_bit_cast},

      {"Relu", 1, 0, plain("relu")},
      {"LeakyRelu", 1, 0, plain("leaky_relu", 1, {{"alpha", 0.01}})},
      {"PRelu", 1, 0, convert_prelu},
      {"Elu", 1, 0, plain("elu", 1, {{"alpha", 1.0}})},
      // The defaults of Selu before opset 6 were rounded.
      {"Selu", 1, 5, plain("selu", 1, {{"alpha", 1.6732}, {"gamma", 1.0507}})},
      {"Selu", 6, 0, plain("selu", 1, {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}})},
      {"Celu", 12, 0, convert_celu},
      {"Sigmoid", 1, 0, plain("sigmoid")},
      {"HardSigmoid", 1, 0, plain("hard_sigmoid", 1, {{"alpha", 0.2F}, {"beta", 0.5}})},
      {"HardSwish", 14, 0, plain("hard_swish")},
      {"Softplus", 1, 0, plain("softplus")},
      {"Softsign", 1, 0, plain("softsign")},
      {"ThresholdedRelu", 10, 0, plain("thresholded_relu", 1, {{"alpha", 1.0}})},
      {"Shrink", 9, 0, plain("shrink", 1, {{"lambd", 0.5}, {"bias", 0.0}})},
      {"Gelu", 20, 0, convert_gelu},
      {"Mish", 18, 0, plain("mish")},
      {"Swish", 24, 0, plain("silu", 1, {{"alpha", 1.0}})}};
}

}  // namespace tw::frontend
