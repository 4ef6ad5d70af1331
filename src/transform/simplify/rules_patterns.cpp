// Decomposed operators. A match replaces the last node of the pattern only; the others die when nothing else reads
// them.
#include <algorithm>

#include "transform/rules.h"

namespace tw::transform {
namespace {

// ---- x f(x) as one operator.

// f is one operator, or a second one behind a first.
struct Gate {
  std::string_view fused;
  std::string_view last, first;
  bool (*fits)(const Node& last, DataType type) = nullptr;
};

bool is_of_sixths(const Node& hard_sigmoid, DataType type) {
  return is_about(hard_sigmoid.float_attr_or("alpha", 0.2), 1.0 / 6, type) &&
         hard_sigmoid.float_attr_or("beta", 0.5) == 0.5;
}

constexpr Gate kGates[] = {
    {"silu", "sigmoid", ""}, {"mish", "tanh", "softplus"}, {"hard_swish", "hard_sigmoid", "", is_of_sixths}};

bool match_gate(Editor& editor, const Node& node) {
  for (const Gate& gate : kGates) {
    for (size_t k = 0; k < 2; ++k) {
      const Node* inner = editor.producer(node.inputs[k], gate.last);
      if (inner != nullptr && gate.fits && !gate.fits(*inner, editor.type(node.outputs[0]).type)) continue;
      if (inner != nullptr && !gate.first.empty()) inner = editor.producer(inner->inputs[0], gate.first);
      if (inner == nullptr || inner->inputs[0] != node.inputs[1 - k]) continue;
      return editor.replace(node.outputs[0], editor.emit(node, std::string(gate.fused), {inner->inputs[0]}));
    }
  }
  return false;
}

// ---- Layer normalization: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps).

// First axis of a mean over the last dims that keeps them as 1; -1 otherwise.
int64_t first_mean_axis(const Editor& editor, const Node& mean) {
  const auto rank = static_cast<int64_t>(editor.type(mean.inputs[0]).shape.size());
  if (mean.int_attr_or("keepdims", 1) == 0) return -1;
  std::vector<int64_t> axes = mean.ints_attr_or("axes", {});
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size()) + static_cast<int64_t>(i)) return -1;
  }
  return axes.empty() ? -1 : axes.front();
}

struct Centered {
  ValueId x = kAbsent;
  int64_t axis = -1;
};

// x - mean(x) over the last dims.
Centered match_centered(const Editor& editor, ValueId id) {
  const Node* sub = editor.producer(id, "sub");
  const Node* mean = sub == nullptr ? nullptr : editor.producer(sub->inputs[1], "reduce_mean");
  if (mean == nullptr || mean->inputs[0] != sub->inputs[0]) return {};
  return {mean->inputs[0], first_mean_axis(editor, *mean)};
}

// The value that `id` is the square of.
ValueId square_root_of(const Editor& editor, ValueId id) {
  const Node* node = editor.producer(id);
  if (node == nullptr) return kAbsent;
  if (node->op == "mul" && node->inputs[0] == node->inputs[1]) return node->inputs[0];
  if (node->op != "pow") return kAbsent;
  const auto exponent = splat_of(editor.value(node->inputs[1]));
  return exponent && *exponent == 2 ? node->inputs[0] : kAbsent;
}

// Whether `node` is a square root, also as a power: what is no less than 0 has the same.
bool is_root(const Editor& editor, const Node& node) {
  if (node.op != "pow") return node.op == "sqrt";
  const auto exponent = splat_of(editor.value(node.inputs[1]));
  return exponent && *exponent == 0.5;
}

bool match_layer_norm(Editor& editor, const Node& node) {
  const Centered numerator = match_centered(editor, node.inputs[0]);
  const Node* root = editor.producer(node.inputs[1]);
  if (root != nullptr && !is_root(editor, *root)) root = nullptr;
  const Node* sum = root == nullptr ? nullptr : editor.producer(root->inputs[0], "add");
  if (numerator.axis < 0 || sum == nullptr) return false;
  for (size_t k = 0; k < 2; ++k) {
    const auto epsilon = splat_of(editor.value(sum->inputs[k]));
    const Node* variance = editor.producer(sum->inputs[1 - k], "reduce_mean");
    if (!epsilon || variance == nullptr || first_mean_axis(editor, *variance) != numerator.axis) continue;
    const ValueId deviation = square_root_of(editor, variance->inputs[0]);
    if (deviation == kAbsent) continue;
    const Centered again = match_centered(editor, deviation);
    if (again.x != numerator.x || again.axis != numerator.axis) continue;
    const DataType type = editor.type(numerator.x).type;
    const ValueId one = editor.add_constant(node.name + ".scale", {type, {1}}, scalar_bytes(type, 1));
    return editor.replace(node.outputs[0], editor.emit(node, "layer_norm", {numerator.x, one},
                                                       {{"axis", numerator.axis}, {"epsilon", *epsilon}}));
  }
  return false;
}

// Whether `id` is a constant of the shape of the dims from `axis` on (leading ones aside).
bool is_row_parameter(const Editor& editor, ValueId id, const Shape& shape, int64_t axis) {
  if (!editor.value(id).is_constant()) return false;
  const Shape& c = editor.type(id).shape;
  return c == Shape(shape.begin() + axis, shape.end());
}

// layer_norm(x, 1) * scale and layer_norm(x, scale) + bias.
bool absorb_row_parameter(Editor& editor, const Node& node) {
  for (size_t k = 0; k < 2; ++k) {
    const Node* found = editor.producer(node.inputs[k], "layer_norm");
    if (found == nullptr || found->outputs.size() != 1 || editor.use_count(node.inputs[k]) != 1) continue;
    const Node norm = *found;
    if (norm.inputs.size() != 2) continue;
    const graph::Value& scale = editor.value(norm.inputs[1]);
    if (node.op == "mul" && (scale.type.elements() != 1 || splat_of(scale) != 1.0)) continue;
    const Shape& shape = editor.type(node.inputs[k]).shape;
    const int64_t axis = norm.int_attr_or("axis", -1);
    const ValueId parameter = node.inputs[1 - k];
    if (!is_row_parameter(editor, parameter, shape, axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis))
      continue;
    std::vector<ValueId> inputs = norm.inputs;
    if (node.op == "mul") inputs.pop_back();
    inputs.push_back(parameter);
    return editor.replace(node.outputs[0], editor.emit(norm, "layer_norm", inputs, norm.attrs));
  }
  return false;
}

// ---- x is NaN ? 0 : x, as exporters guard softmax against rows of which a mask leaves nothing.
bool match_nan_to_zero(Editor& editor, const Node& node) {
  const ValueId x = node.inputs[2];
  const Node* guard = editor.producer(node.inputs[0], "is_nan");
  if (guard == nullptr || guard->inputs[0] != x || splat_of(editor.value(node.inputs[1])) != 0.0 ||
      editor.type(x).shape != editor.type(node.outputs[0]).shape)
    return false;
  return editor.replace(node.outputs[0], editor.emit(node, "nan_to_zero", {x}));
}

constexpr Rule kRules[] = {
    {"layer_norm", "div", match_layer_norm},          {"layer_norm scale", "mul", absorb_row_parameter},
    {"layer_norm bias", "add", absorb_row_parameter}, {"gate", "mul", match_gate},
    {"nan_to_zero", "where", match_nan_to_zero},
};

}  // namespace

std::span<const Rule> pattern_rules() { return kRules; }

}  // namespace tw::transform
