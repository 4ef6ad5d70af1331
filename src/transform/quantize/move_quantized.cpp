// What moves dequantized numbers, or takes the largest of them, and is quantized again as they were, moves the numbers:
// (q - z) s is quantized to q, since the quotient is nearer to q - z than half a step, and a larger number is a larger
// real.
#include <algorithm>
#include <array>

#include "transform/passes.h"
#include "transform/quantize/linear.h"

namespace tw::transform {
namespace {

constexpr std::array<std::string_view, 7> kMoves = {"reshape", "transpose", "slice",   "expand",
                                                    "concat",  "gather",    "max_pool"};

class NumberMover {
 public:
  NumberMover(const Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op != "cast") return;
      const std::optional<Quantization> to = quantization_of(editor_, node.outputs[0]);
      if (!to || !moves_numbers(to->real, *to, editor_.type(node.outputs[0]).type)) return;
      editor_.replace(node.outputs[0], moved(to->real));
    });
    return editor_.finish();
  }

 private:
  static bool is_move(const Node* node) {
    return node != nullptr && node->outputs.size() == 1 && std::ranges::find(kMoves, node->op) != kMoves.end();
  }
  static size_t data_inputs(const Node& move) { return move.op == "concat" ? move.inputs.size() : 1; }

  // Whether `real` is dequantized, or moved from what is, as `to` quantizes it.
  bool moves_numbers(ValueId real, const Quantization& to, DataType type) const {
    if (const auto from = dequantization_of(editor_, real))
      return editor_.type(from->numbers).type == type && is_undone_by(editor_, *from, to);
    const Node* node = editor_.producer(real);
    if (!is_move(node) || editor_.use_count(real) != 1) return false;
    return std::ranges::all_of(std::span(node->inputs).first(data_inputs(*node)),
                               [&](ValueId in) { return moves_numbers(in, to, type); });
  }

  ValueId moved(ValueId real) {
    if (const auto from = dequantization_of(editor_, real)) return from->numbers;
    Node move = *editor_.producer(real);
    for (ValueId& in : std::span(move.inputs).first(data_inputs(move))) in = moved(in);
    return editor_.add(std::move(move));
  }

  Editor editor_;
};

}  // namespace

graph::Graph move_quantized(const graph::Graph& graph, const TransformContext& context) {
  return NumberMover(graph, context.ops).run();
}

}  // namespace tw::transform
