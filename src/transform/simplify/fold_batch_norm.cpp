// Per-channel scales and shifts. y = s[c] x + t[c] after a contraction of constant weights goes into weights and bias;
// a batch norm elsewhere becomes one mul and one add. Computed in f64, rounded once.
#include <algorithm>
#include <cmath>

#include "support/join.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kChunk = 1 << 16;  // elements that are in f64 at a time: weights may be larger than memory allows

// y = scale[c] x + shift[c] for the channels of x.
struct Affine {
  ValueId x = kAbsent;
  Numbers scale;
  Numbers shift;
};

bool all_finite(const Numbers& numbers) {
  return std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); });
}

// A contraction whose weights and bias are constants.
struct FoldTarget {
  size_t channel_dim = 1;  // of the output
  int64_t channels = 0;
  std::function<int64_t(int64_t)> channel_of;  // output channel of an element of the weights
  int64_t run = 1;                             // so many elements, from a multiple of it on, have one channel
};

std::optional<FoldTarget> match_fold_target(const Editor& editor, const Node& node) {
  const bool conv = node.op == "conv" || node.op == "conv_transpose";
  if ((!conv && node.op != "matmul") || node.inputs.size() < 2 || !editor.value(node.inputs[1]).is_constant())
    return std::nullopt;
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kAbsent;
  if (node.inputs.size() > 3 || (bias && !editor.value(node.inputs[2]).is_constant())) return std::nullopt;
  if (!editor.type(node.outputs[0]).type.is_float()) return std::nullopt;
  const Shape& w = editor.type(node.inputs[1]).shape;
  const Shape& out = editor.type(node.outputs[0]).shape;
  FoldTarget target;
  if (node.op == "matmul") {
    if (w.size() != 2 || out.size() < 2 || bias) return std::nullopt;
    target.channel_dim = out.size() - 1;
    target.channels = w[1];
    target.channel_of = [columns = w[1]](int64_t i) { return i % columns; };
    return target;
  }
  target.channels = out[1];
  const int64_t inner = num_elements(Shape(w.begin() + 2, w.end()));
  if (node.op == "conv") {
    target.run = inner * w[1];
    target.channel_of = [run = target.run](int64_t i) { return i / run; };
  } else {  // w[input channel][output channel of the group][..]
    const int64_t rows = w[0] / node.int_attr_or("group", 1);
    target.run = inner;
    target.channel_of = [inner, rows, columns = w[1]](int64_t i) {
      return i / inner % columns + i / (inner * columns) / rows * columns;
    };
  }
  return target;
}

// The elements of constant `id` for each of `channels` channels of dim `dim` of `shape`, when it varies along that dim
// only.
std::optional<Numbers> per_channel(const Editor& editor, ValueId id, const Shape& shape, size_t dim) {
  const graph::Value& value = editor.value(id);
  if (!value.is_constant() || !value.type.type.is_float() || value.type.shape.size() > shape.size())
    return std::nullopt;
  const size_t missing = shape.size() - value.type.shape.size();
  for (size_t d = 0; d < value.type.shape.size(); ++d) {
    if (value.type.shape[d] != 1 && (d + missing != dim || value.type.shape[d] != shape[dim])) return std::nullopt;
  }
  const Numbers elements = elements_of(value).floats;
  return elements.size() == 1 ? Numbers(shape[dim], elements[0]) : elements;
}

std::optional<Affine> match_batch_norm(const Editor& editor, const Node& node) {
  if (node.op != "batch_norm") return std::nullopt;
  for (size_t k = 1; k < 5; ++k) {
    if (!editor.value(node.inputs[k]).is_constant()) return std::nullopt;
  }
  const Numbers scale = elements_of(editor.value(node.inputs[1])).floats;
  const Numbers bias = elements_of(editor.value(node.inputs[2])).floats;
  const Numbers mean = elements_of(editor.value(node.inputs[3])).floats;
  const Numbers variance = elements_of(editor.value(node.inputs[4])).floats;
  const double epsilon = node.float_attr_or("epsilon", static_cast<float>(1e-5));  // ONNX's default is an f32
  Affine affine{node.inputs[0], {}, {}};
  for (size_t c = 0; c < scale.size(); ++c) {
    affine.scale.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
    affine.shift.push_back(bias[c] - mean[c] * affine.scale[c]);
  }
  if (!all_finite(affine.scale) || !all_finite(affine.shift)) return std::nullopt;
  return affine;
}

// mul, div, add or sub by a constant that varies along dim `dim` only.
std::optional<Affine> match_arithmetic(const Editor& editor, const Node& node, size_t dim) {
  const bool commutes = node.op == "mul" || node.op == "add";
  if (!commutes && node.op != "div" && node.op != "sub") return std::nullopt;
  const TensorType& type = editor.type(node.outputs[0]);
  if (!type.type.is_float() || type.shape.size() <= dim) return std::nullopt;
  for (size_t k = commutes ? 0 : 1; k < 2; ++k) {
    const ValueId x = node.inputs[1 - k];
    auto numbers = per_channel(editor, node.inputs[k], type.shape, dim);
    if (!numbers || editor.type(x) != type) continue;
    const bool scales = node.op == "mul" || node.op == "div";
    for (double& c : *numbers) c = node.op == "div" ? 1 / c : node.op == "sub" ? -c : c;
    if (!all_finite(*numbers)) return std::nullopt;
    const size_t channels = numbers->size();
    return scales ? Affine{x, *numbers, Numbers(channels, 0)} : Affine{x, Numbers(channels, 1), *numbers};
  }
  return std::nullopt;
}

std::vector<std::byte> scaled_weights(const graph::Value& weights, const FoldTarget& target, const Numbers& scale) {
  std::vector<std::byte> out;
  out.reserve(weights.constant->size());
  const int64_t size = weights.type.type.bytes();
  for (int64_t begin = 0; begin < weights.type.elements(); begin += kChunk) {
    const int64_t count = std::min(kChunk, weights.type.elements() - begin);
    graph::RefTensor part = graph::RefTensor::from_bytes({weights.type.type, {count}},
                                                         weights.constant->subspan(begin * size, count * size));
    for (int64_t i = 0, end = 0; i < count; i = end) {
      end = std::min(count, i + target.run - (begin + i) % target.run);
      const double factor = scale[target.channel_of(begin + i)];
      for (int64_t k = i; k < end; ++k) part.floats[k] *= factor;
    }
    append(out, part.to_bytes());
  }
  return out;
}

ValueId add_numbers(Editor& editor, const std::string& name, const TensorType& type, Numbers numbers) {
  return editor.add_constant(name, {.type = type, .floats = std::move(numbers)});
}

// The contraction with scaled weights and new bias in the place of the affine map.
bool fold_into(Editor& editor, const Node& last, const Node& contraction, const FoldTarget& target,
               const Affine& affine) {
  const bool takes_bias = contraction.op != "matmul";
  if (!takes_bias && !all_are(affine.shift, 0)) return false;
  Node folded = contraction;
  const graph::Value weights = editor.value(contraction.inputs[1]);
  if (!all_are(affine.scale, 1)) {
    folded.inputs[1] = editor.add_constant(weights.name, weights.type, scaled_weights(weights, target, affine.scale));
  }
  if (takes_bias) {
    const bool had_bias = contraction.inputs.size() > 2 && contraction.inputs[2] != kAbsent;
    Numbers bias = had_bias ? elements_of(editor.value(contraction.inputs[2])).floats : Numbers(target.channels, 0);
    for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
    folded.inputs.resize(3, kAbsent);
    folded.inputs[2] =
        add_numbers(editor, contraction.name + ".bias", {weights.type.type, {target.channels}}, std::move(bias));
  }
  return editor.replace(last.outputs[0], editor.add(std::move(folded)));
}

bool fold_after_contraction(Editor& editor, const Node& node) {
  for (const ValueId in : node.inputs) {
    const Node* producer = editor.producer(in);
    if (producer == nullptr || editor.use_count(in) != 1) continue;
    const Node contraction = *producer;
    const auto target = match_fold_target(editor, contraction);
    if (!target) continue;
    auto affine = target->channel_dim == 1 ? match_batch_norm(editor, node) : std::nullopt;
    if (!affine) affine = match_arithmetic(editor, node, target->channel_dim);
    if (affine && affine->x == in && fold_into(editor, node, contraction, *target, *affine)) return true;
  }
  return false;
}

// factor * x, where x is a product of constant weights behind views, transposes and its bias: they take the factor.
// Scaled queries and keys of an attention need no step of their own. kAbsent where x is none.
ValueId scaled(Editor& editor, ValueId x, double factor) {
  const Node* producer = editor.producer(x);
  if (producer == nullptr || editor.use_count(x) != 1) return kAbsent;
  Node node = *producer;
  const bool moves = node.op == "transpose" || node.op == "reshape";
  const size_t data = node.op == "add" && editor.value(node.inputs[0]).is_constant() ? 1 : 0;
  if (node.op != "matmul" || !match_fold_target(editor, node)) {
    if (!moves && (node.op != "add" || !editor.value(node.inputs[1 - data]).is_constant())) return kAbsent;
    node.inputs[data] = scaled(editor, node.inputs[data], factor);
    if (node.inputs[data] == kAbsent) return kAbsent;
  }
  if (!moves) {
    const graph::Value c = editor.value(node.inputs[1 - data]);
    const FoldTarget whole{.channel_of = [](int64_t) { return int64_t{0}; }, .run = c.type.elements()};
    node.inputs[1 - data] = editor.add_constant(c.name, c.type, scaled_weights(c, whole, {factor}));
  }
  return editor.add(std::move(node));
}

// Whether it may be scaled(), from its producer alone: constants of millions of elements are not looked at for nothing.
bool may_be_scaled(const Editor& editor, ValueId x) {
  const Node* producer = editor.producer(x);
  return producer != nullptr && editor.use_count(x) == 1 &&
         (producer->op == "matmul" || producer->op == "transpose" || producer->op == "reshape" ||
          (producer->op == "add" &&
           (editor.value(producer->inputs[0]).is_constant() || editor.value(producer->inputs[1]).is_constant())));
}

bool fold_factor(Editor& editor, const Node& node) {
  if (node.op != "mul" && node.op != "div") return false;
  if (std::ranges::none_of(node.inputs, [&](ValueId in) { return may_be_scaled(editor, in); })) return false;
  const auto affine = match_arithmetic(editor, node, editor.type(node.outputs[0]).shape.size() - 1);
  if (!affine || affine->scale.empty() || !all_are(affine->scale, affine->scale[0]) || !all_are(affine->shift, 0))
    return false;
  const ValueId folded = scaled(editor, affine->x, affine->scale[0]);
  return folded != kAbsent && editor.replace(node.outputs[0], folded);
}

// scale x + shift as two nodes.
void split_batch_norm(Editor& editor, const Node& node) {
  const auto affine = match_batch_norm(editor, node);
  if (!affine) return;
  const TensorType& type = editor.type(node.outputs[0]);
  Shape shape(type.shape.size() - 1, 1);
  shape[0] = static_cast<int64_t>(affine->scale.size());
  const TensorType parameter{type.type, shape};
  const ValueId scale = add_numbers(editor, node.name + ".scale", parameter, affine->scale);
  const ValueId shift = add_numbers(editor, node.name + ".shift", parameter, affine->shift);
  const ValueId scaled = editor.emit(node, "mul", {affine->x, scale});
  editor.replace(node.outputs[0], editor.emit(node, "add", {scaled, shift}));
}

}  // namespace

graph::Graph fold_batch_norm(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each([&](const Node& node) {  // a split batch norm may fold too
    if (fold_after_contraction(editor, node) || node.outputs.size() != 1) return;
    if (!fold_factor(editor, node) && node.op == "batch_norm") split_batch_norm(editor, node);
  });
  return editor.finish();
}

}  // namespace tw::transform
