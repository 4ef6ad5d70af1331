// Left operands of products of quads are unsigned bytes (expr/word_product.h). Activations that are quantized to signed
// ones are quantized to unsigned ones instead, their zero point 128 higher: the same numbers less their zero points,
// and words as they lie in memory. Who else reads them takes 128 off again.
#include <algorithm>

#include "expr/word_product.h"
#include "transform/passes.h"
#include "transform/quantize/linear.h"

namespace tw::transform {
namespace {

constexpr int64_t kTopBit = 128;
constexpr DataType kI8 = ScalarType::kI8, kU8 = ScalarType::kU8;

class Shifter {
 public:
  Shifter(const Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "matmul_integer" || node.op == "conv_integer") shift(node);
    });
    for (const auto& [from, to] : shifted_) take_off(from, to);
    return editor_.finish();
  }

 private:
  void shift(const Node& node) {
    if (editor_.type(node.inputs[0]).type != kI8 || !is_quantized_here(node.inputs[0])) return;
    const ValueId zero = node.inputs.size() > 2 ? node.inputs[2] : kAbsent;
    if (zero != kAbsent && !splat_of(editor_.value(zero))) return;
    const double number = zero == kAbsent ? 0 : *splat_of(editor_.value(zero));
    Node product = node;
    product.inputs.resize(std::max<size_t>(3, node.inputs.size()), kAbsent);
    product.inputs[0] = as_unsigned(node.inputs[0]);
    product.inputs[2] = editor_.add_constant(node.name + ".zero", {kU8, {}}, scalar_bytes(kU8, number + kTopBit));
    editor_.replace(node.outputs[0], editor_.add(std::move(product)));
  }

  const Node* move_of(ValueId x) const {
    const Node* node = editor_.producer(x);
    const auto is = [&](std::string_view op) { return node != nullptr && node->op == op; };
    return is("transpose") || is("reshape") || is("slice") || is("expand") ? node : nullptr;
  }

  bool is_quantized_here(ValueId x) const {
    const Node* move = move_of(x);
    return move != nullptr ? is_quantized_here(move->inputs[0])
                           : !editor_.graph().is_output(x) && quantization_of(editor_, x).has_value();
  }

  ValueId as_unsigned(ValueId x) {
    if (const Node* found = move_of(x); found != nullptr) {
      Node move = *found;
      move.inputs[0] = as_unsigned(move.inputs[0]);
      return editor_.add(std::move(move));
    }
    const auto [known, is_new] = shifted_.try_emplace(x, kAbsent);
    if (!is_new) return known->second;
    const Node cast = *editor_.producer(x), clip = *editor_.producer(cast.inputs[0]);
    const DataType type = editor_.type(clip.inputs[0]).type;
    ValueId q = editor_.emit(clip, "add", {clip.inputs[0], number(cast, type)});
    q = editor_.emit(clip, "clip", {q}, {{"min", 0.0}, {"max", 255.0}});
    q = editor_.emit(cast, "cast", {q}, {{"to", to_string(kU8)}});
    return known->second = q;
  }

  ValueId number(const Node& like, DataType type) {
    return editor_.add_constant(like.name + ".shift", {type, {}}, scalar_bytes(type, kTopBit));
  }

  // Readers of the signed numbers: those that widen them do it from the unsigned ones.
  void take_off(ValueId from, ValueId to) {
    const Node quantized = *editor_.producer(from);
    const DataType i32 = DataType::i32();
    const ValueId wide = editor_.emit(quantized, "cast", {to}, {{"to", to_string(i32)}});
    const ValueId less = editor_.emit(quantized, "sub", {wide, number(quantized, i32)});
    for (const int reader : std::vector<int>(editor_.readers(from))) {
      const Node node = editor_.node(static_cast<size_t>(reader));
      if (node.op == "cast" && editor_.type(node.outputs[0]).type == i32) editor_.replace(node.outputs[0], less);
    }
    if (editor_.use_count(from) > 0)
      editor_.replace(from, editor_.emit(quantized, "cast", {less}, {{"to", to_string(kI8)}}));
  }

  std::map<ValueId, ValueId> shifted_;
  Editor editor_;
};

}  // namespace

graph::Graph unsigned_activations(const graph::Graph& graph, const TransformContext& context) {
  if (!sums_words(context.target, WordFormat::kQuads)) return graph;
  return Shifter(graph, context.ops).run();
}

}  // namespace tw::transform
