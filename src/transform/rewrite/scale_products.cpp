// (a x) y = a (x y): queries and keys that a model multiplies by a number each are operands as they are, and their
// scores are multiplied instead, where they are in registers. Only where x was cut from a larger value, looked up,
// repeated, is a state that takes rows, or comes from outside: what an operator computes it can multiply, too, without
// a kernel more. Products of f16 are stored before they are multiplied, where no chain keeps them in registers: factors
// that keep them in f16's range stay where they are.
#include <cmath>
#include <optional>

#include "transform/constants.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/rules.h"

namespace tw::transform {
namespace {

bool turns(const Node& node) { return node.op == "reshape" || node.op == "transpose"; }
bool cuts(const Node& node) {
  return node.op == "slice" || node.op == "gather" || node.op == "expand" || node.op == "update_slice";
}

class Scaler {
 public:
  Scaler(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "matmul" && editor_.type(node.outputs[0]).type.is_float()) move_factors(node);
    });
    const std::span<const Rule> moves[] = {movement_rules(), order_rules()};
    apply_to_all(editor_, moves);  // which meet where numbers were between them
    return editor_.finish();
  }

 private:
  // x and a, and the value a x.
  struct Scaled {
    ValueId x, product;
    double factor;
  };

  // Behind nothing but moves that this operand alone reads.
  std::optional<Scaled> scaled(ValueId id) const {
    const Node* node = editor_.producer(id);
    while (node != nullptr && editor_.use_count(id) == 1 && (turns(*node) || cuts(*node))) {
      id = node->inputs[0];
      node = editor_.producer(id);
    }
    if (node == nullptr || node->op != "mul" || editor_.use_count(id) != 1) return std::nullopt;
    for (const size_t k : {0, 1}) {
      const ValueId x = node->inputs[k];
      const std::optional<double> factor = splat_of(editor_.value(node->inputs[1 - k]));
      if (factor && editor_.type(x) == editor_.type(id) && is_only_moved(x)) return Scaled{x, id, *factor};
    }
    return std::nullopt;
  }

  bool is_only_moved(ValueId x) const {
    const Node* node = editor_.producer(x);
    while (node != nullptr && (turns(*node) || node->op == "cast")) {
      x = node->inputs[0];
      node = editor_.producer(x);
    }
    return node != nullptr ? cuts(*node) : editor_.is_input(x);
  }

  void move_factors(const Node& node) {
    constexpr double kLeast = 1.0 / 32;  // of heads of up to 1,024 elements
    const DataType type = editor_.type(node.outputs[0]).type;
    double factor = 1;
    for (const size_t k : {0, 1}) {
      const std::optional<Scaled> found = scaled(editor_.producer(node.outputs[0])->inputs[k]);
      if (!found || (type == DataType::f16() && std::abs(factor * found->factor) < kLeast)) continue;
      factor *= found->factor;
      editor_.replace(found->product, found->x);
    }
    if (factor == 1) return;
    const ValueId number = editor_.add_constant(node.name + ".factor", {type, {}}, scalar_bytes(type, factor));
    const ValueId product = editor_.add(Node(*editor_.producer(node.outputs[0])));
    editor_.replace(node.outputs[0], editor_.emit(node, "mul", {product, number}));
  }

  Editor editor_;
};

}  // namespace

// On CPUs the copy that multiplies packs the operand, too. Rounded numbers are others.
graph::Graph scale_products(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu || context.precision == Precision::kStrict) return graph;
  return Scaler(graph, context.ops).run();
}

}  // namespace tw::transform
