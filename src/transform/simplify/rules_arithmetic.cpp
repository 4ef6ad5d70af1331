#include <algorithm>
#include <cmath>

#include "transform/rules.h"

namespace tw::transform {
namespace {

// x^2 = x x; x^1 = x; x^-1 = 1/x. (x^0.5 is not sqrt(x) for x = -0 and minus infinity.)
bool simplify_power(Editor& editor, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto exponent = splat_of(editor.value(node.inputs[1]));
  if (!exponent || editor.type(x) != editor.type(node.outputs[0])) return false;
  const bool is_float = editor.type(x).type.is_float();
  if (*exponent == 1) return editor.replace(node.outputs[0], x);
  if (*exponent == 2) return editor.replace(node.outputs[0], editor.emit(node, "mul", {x, x}));
  if (*exponent == -1 && is_float) return editor.replace(node.outputs[0], editor.emit(node, "reciprocal", {x}));
  return false;
}

// Whether 1/x is exact in every float type that holds x.
bool has_exact_reciprocal(double x) {
  int exponent = 0;
  return std::isfinite(x) && x != 0 && std::abs(std::frexp(x, &exponent)) == 0.5 && std::abs(exponent) <= 14;
}

// x / 2^k = x * 2^-k.
bool divide_by_multiplying(Editor& editor, const Node& node) {
  const graph::Value& divisor = editor.value(node.inputs[1]);
  if (!divisor.type.type.is_float() || !divisor.is_constant() || divisor.type.elements() == 0) return false;
  graph::RefTensor inverse = elements_of(divisor);
  for (double& x : inverse.floats) {
    if (!has_exact_reciprocal(x)) return false;
    x = 1 / x;
  }
  const ValueId factor = editor.add_constant(divisor.name + ".inverse", inverse);
  return editor.replace(node.outputs[0], editor.emit(node, "mul", {node.inputs[0], factor}));
}

// x * 1, x / 1, x - 0. (x + 0 is not x for x = -0.)
bool drop_neutral(Editor& editor, const Node& node) {
  const double neutral = node.op == "sub" ? 0 : 1;
  const size_t first = node.op == "mul" ? 0 : 1;
  for (size_t k = first; k < 2; ++k) {
    const auto constant = splat_of(editor.value(node.inputs[k]));
    const ValueId x = node.inputs[1 - k];
    if (!constant || *constant != neutral || std::signbit(*constant)) continue;
    if (editor.type(x) == editor.type(node.outputs[0])) return editor.replace(node.outputs[0], x);
  }
  return false;
}

// What a constant condition is everywhere, however it is repeated.
std::optional<bool> known_condition(const Editor& editor, ValueId id) {
  for (const Node* node = editor.producer(id); node != nullptr; node = editor.producer(id)) {
    if (node->op != "expand" && node->op != "reshape") return std::nullopt;
    id = node->inputs[0];
  }
  const graph::Value& value = editor.value(id);
  if (!value.is_constant() || value.type.type != DataType::boolean() || value.type.elements() == 0) return std::nullopt;
  const auto is_set = [](std::byte element) { return element != std::byte{0}; };
  const bool any = std::ranges::any_of(*value.constant, is_set);
  return !any || std::ranges::all_of(*value.constant, is_set) ? std::optional(any) : std::nullopt;
}

// A condition that is the same everywhere.
bool take_known_side(Editor& editor, const Node& node) {
  const std::optional<bool> condition = known_condition(editor, node.inputs[0]);
  if (!condition) return false;
  const ValueId side = node.inputs[*condition ? 1 : 2];
  const TensorType out = editor.type(node.outputs[0]);
  if (editor.type(side) == out) return editor.replace(node.outputs[0], side);
  return editor.replace(node.outputs[0], editor.emit(node, "expand", {side}, {{"shape", out.shape}}));
}

constexpr Rule kRules[] = {
    {"known condition", "where", take_known_side}, {"power", "pow", simplify_power},
    {"neutral factor", "mul", drop_neutral},       {"neutral divisor", "div", drop_neutral},
    {"neutral subtrahend", "sub", drop_neutral},   {"division by a power of two", "div", divide_by_multiplying},
};

}  // namespace

std::span<const Rule> arithmetic_rules() { return kRules; }

}  // namespace tw::transform
