// Elementwise arithmetic, comparisons, logic and casts, with numpy's broadcasting.
#include <cctype>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/element_type.h"

namespace tw::frontend {
namespace {

// "BitwiseAnd" -> "bitwise_and"; "GreaterOrEqual" -> "greater_equal".
std::string snake_case(const std::string& name) {
  if (name == "GreaterOrEqual") return "greater_equal";
  if (name == "LessOrEqual") return "less_equal";
  std::string result;
  for (const char ch : name) {
    if (std::isupper(static_cast<unsigned char>(ch)) && !result.empty()) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  }
  return result;
}

Outputs convert_unary(NodeContext& c) {
  c.ignore_attr("consumed_inputs");
  return {c.emit().op(snake_case(c.op()), {c.input(0)})};
}

// Before opset 7 broadcasting was asked for, and the second operand's dimensions began at an axis of the first.
Outputs convert_old_binary(NodeContext& c) {
  c.ignore_attr("consumed_inputs");
  ValueId b = c.input(1);
  if (c.int_or("broadcast", 0) != 0) {
    const int64_t axis = c.int_or("axis", c.rank(0) - c.rank(1));
    const int64_t after = c.rank(0) - axis - c.rank(1);
    if (axis < 0 || after < 0) throw UserError("attribute 'axis' leaves no room for the second input");
    Shape shape = c.shape(1);
    shape.insert(shape.end(), after, 1);
    b = c.emit().reshape(b, shape);
  } else if (c.shape(0) != c.shape(1)) {
    throw UserError("the shapes differ and broadcast is 0");
  }
  return {c.emit().op(snake_case(c.op()), {c.input(0), b})};
}

Outputs convert_binary(NodeContext& c) {
  if (c.opset() < 7) return convert_old_binary(c);
  return {c.emit().op(snake_case(c.op()), {c.input(0), c.input(1)})};
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

Outputs convert_variadic(NodeContext& c) {
  c.ignore_attr("consumed_inputs");
  const std::string op = c.op() == "Max" ? "max" : c.op() == "Min" ? "min" : "add";
  const std::vector<ValueId> inputs = c.all_inputs();
  ValueId sum = inputs[0];
  for (size_t k = 1; k < inputs.size(); ++k) sum = c.emit().op(op, {sum, inputs[k]});
  if (c.op() == "Mean" && inputs.size() > 1)
    sum = c.emit().div(sum, c.emit().number(sum, static_cast<double>(inputs.size())));
  return {sum};
}

Outputs convert_where(NodeContext& c) { return {c.emit().where(c.input(0), c.input(1), c.input(2))}; }

Outputs convert_is_inf(NodeContext& c) {
  return {c.emit().op(
      "is_inf", {c.input(0)},
      {{"detect_negative", c.int_or("detect_negative", 1)}, {"detect_positive", c.int_or("detect_positive", 1)}})};
}

// Before opset 11 the bounds are attributes; after, optional scalar inputs. Lower bound first, then upper.
Outputs convert_clip(NodeContext& c) {
  Emitter& e = c.emit();
  c.ignore_attr("consumed_inputs");
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

constexpr auto kRows = std::to_array<ConverterRow>({
    {"Abs", 1, 0, convert_unary},
    {"Acos", 7, 0, convert_unary},
    {"Acosh", 9, 0, convert_unary},
    {"Asin", 7, 0, convert_unary},
    {"Asinh", 9, 0, convert_unary},
    {"Atan", 7, 0, convert_unary},
    {"Atanh", 9, 0, convert_unary},
    {"BitwiseNot", 18, 0, convert_unary},
    {"Ceil", 1, 0, convert_unary},
    {"Cos", 7, 0, convert_unary},
    {"Cosh", 9, 0, convert_unary},
    {"Erf", 9, 0, convert_unary},
    {"Exp", 1, 0, convert_unary},
    {"Floor", 1, 0, convert_unary},
    {"IsInf", 10, 0, convert_is_inf},
    {"IsNaN", 9, 0, [](NodeContext& c) -> Outputs { return {c.emit().op("is_nan", {c.input(0)})}; }},
    {"Log", 1, 0, convert_unary},
    {"Neg", 1, 0, convert_unary},
    {"Not", 1, 0, convert_unary},
    {"Reciprocal", 1, 0, convert_unary},
    {"Round", 11, 0, convert_unary},
    {"Sign", 9, 0, convert_unary},
    {"Sin", 7, 0, convert_unary},
    {"Sinh", 9, 0, convert_unary},
    {"Sqrt", 1, 0, convert_unary},
    {"Tan", 7, 0, convert_unary},
    {"Tanh", 1, 0, convert_unary},
    {"Add", 1, 0, convert_binary},
    {"Sub", 1, 0, convert_binary},
    {"Mul", 1, 0, convert_binary},
    {"Div", 1, 0, convert_binary},
    {"And", 1, 0, convert_binary},
    {"Or", 1, 0, convert_binary},
    {"Xor", 1, 0, convert_binary},
    {"Equal", 1, 0, convert_binary},
    {"Greater", 1, 0, convert_binary},
    {"Less", 1, 0, convert_binary},
    {"GreaterOrEqual", 12, 0, convert_binary},
    {"LessOrEqual", 12, 0, convert_binary},
    {"BitwiseAnd", 18, 0, convert_binary},
    {"BitwiseOr", 18, 0, convert_binary},
    {"BitwiseXor", 18, 0, convert_binary},
    {"BitShift", 11, 0, convert_bit_shift},
    {"Mod", 10, 0, convert_mod},
    {"Pow", 1, 0, convert_binary},
    {"Max", 1, 0, convert_variadic},
    {"Min", 1, 0, convert_variadic},
    {"Sum", 1, 0, convert_variadic},
    {"Mean", 1, 0, convert_variadic},
    {"Where", 9, 0, convert_where},
    {"Clip", 1, 0, convert_clip},
    {"Cast", 6, 0, convert_cast},
    {"CastLike", 15, 0, convert_cast_like},
    {"BitCast", 26, 0, convert_bit_cast},
});

}  // namespace

std::span<const ConverterRow> elementwise_rows() { return kRows; }

}  // namespace tw::frontend
