#include "transform/quantize/linear.h"

#include <cmath>

namespace tw::transform {
namespace {

constexpr int kMaxBits = 16;

bool is_number_type(DataType type) { return type.is_int() && type.bits() <= kMaxBits; }

// What a cast to `to` is of; kAbsent where `id` is none.
ValueId cast_of(const Editor& editor, ValueId id) {
  const Node* cast = id == kAbsent ? nullptr : editor.producer(id, "cast");
  return cast == nullptr ? kAbsent : cast->inputs[0];
}

// The value of narrow integers that `id` has in a wider type.
ValueId widened(const Editor& editor, ValueId id) {
  const ValueId narrow = cast_of(editor, id);
  return narrow != kAbsent && is_number_type(editor.type(narrow).type) ? narrow : kAbsent;
}

// A zero point of numbers of `type` in a wider one: what was widened, or a constant of such numbers.
ValueId zero_point(const Editor& editor, ValueId id, DataType type) {
  const graph::Value& value = editor.value(id);
  if (!value.is_constant()) {
    const ValueId narrow = widened(editor, id);
    return narrow != kAbsent && editor.type(narrow).type == type ? narrow : kAbsent;
  }
  const graph::RefTensor all = elements_of(value);
  for (int64_t i = 0; i < value.type.elements(); ++i) {
    if (static_cast<double>(saturate_to(type.scalar(), all.at(i))) != all.at(i)) return kAbsent;
  }
  return id;
}

std::optional<Dequantization> with_scale(const Editor& editor, ValueId product, ValueId scale) {
  const ValueId difference = cast_of(editor, product);
  if (difference == kAbsent || editor.shape(difference) != editor.shape(product)) return std::nullopt;
  if (is_number_type(editor.type(difference).type)) return Dequantization{difference, kAbsent, scale};
  if (const ValueId numbers = widened(editor, difference); numbers != kAbsent)
    return Dequantization{numbers, kAbsent, scale};
  const Node* sub = editor.producer(difference, "sub");
  if (sub == nullptr) return std::nullopt;
  const ValueId numbers = widened(editor, sub->inputs[0]);
  if (numbers == kAbsent || editor.shape(numbers) != editor.shape(product)) return std::nullopt;
  const ValueId zero = zero_point(editor, sub->inputs[1], editor.type(numbers).type);
  if (zero == kAbsent) return std::nullopt;
  return Dequantization{numbers, zero, scale};
}

// Whether clipping to [min, max] leaves all of `type`, and nothing else.
bool clips_to(const Node& clip, DataType type) {
  const auto limit = [&](double x) { return static_cast<double>(saturate_to(type.scalar(), x)); };
  return clip.float_attr_or("min", -HUGE_VAL) == limit(-HUGE_VAL) &&
         clip.float_attr_or("max", HUGE_VAL) == limit(HUGE_VAL);
}

}  // namespace

std::optional<Dequantization> dequantization_of(const Editor& editor, ValueId real) {
  const Node* mul = editor.producer(real, "mul");
  if (mul == nullptr || !editor.type(real).type.is_float()) return std::nullopt;
  for (const size_t k : {0, 1}) {
    if (editor.shape(mul->inputs[k]) != editor.shape(real)) continue;
    if (auto found = with_scale(editor, mul->inputs[k], mul->inputs[1 - k])) return found;
  }
  return std::nullopt;
}

std::optional<Quantization> quantization_of(const Editor& editor, ValueId numbers) {
  const DataType type = editor.type(numbers).type;
  const ValueId clipped = cast_of(editor, numbers);
  const Node* clip = clipped == kAbsent || !is_number_type(type) ? nullptr : editor.producer(clipped, "clip");
  if (clip == nullptr || !clips_to(*clip, type)) return std::nullopt;
  Quantization q{kAbsent, kAbsent, kAbsent, kAbsent, false};
  const Node* round = editor.producer(clip->inputs[0], "round");
  if (const Node* add = editor.producer(clip->inputs[0], "add"); add != nullptr) {
    q.zero = zero_point(editor, add->inputs[1], type);
    if (q.zero == kAbsent) return std::nullopt;
    round = editor.producer(add->inputs[0], "round");
  }
  const Node* step = round == nullptr ? nullptr : editor.producer(round->inputs[0]);
  if (step == nullptr || (step->op != "div" && step->op != "mul")) return std::nullopt;
  q.quotient = step->outputs[0];
  q.real = step->inputs[0];
  q.scale = step->inputs[1];
  q.is_inverse = step->op == "mul";
  return editor.shape(q.real) == editor.shape(numbers) ? std::optional(q) : std::nullopt;
}

std::optional<double> number_of(const Editor& editor, ValueId id) {
  for (const Node* node = editor.producer(id); node != nullptr; node = editor.producer(id)) {
    if (node->op != "reshape" && node->op != "cast") return std::nullopt;
    id = node->inputs[0];
  }
  return splat_of(editor.value(id));
}

bool is_undone_by(const Editor& editor, const Dequantization& from, const Quantization& to) {
  const auto zero = [&](ValueId id) { return id == kAbsent ? std::optional(0.0) : number_of(editor, id); };
  const std::optional<double> a = number_of(editor, from.scale), b = number_of(editor, to.scale);
  if (!a || !b || *a <= 0 || !zero(from.zero) || zero(from.zero) != zero(to.zero)) return false;
  return to.is_inverse ? *a * *b == 1 : *a == *b;
}

}  // namespace tw::transform
