// (a x) y = a (x y): queries and keys that a model multiplies by a number each are operands as they are, and their
// scores are multiplied instead, where they are in registers. Only where x was cut from a larger value, looked up,
// repeated, is a state that takes rows, or comes from outside: what an operator computes it can multiply, too, without
// a kernel more. And only where nothing but products reads a x: those of a backward pass are products of x, too.
// Products of f16 are stored before they are multiplied, where no chain keeps them in registers: factors that keep them
// in f16's range stay where they are.
#include <algorithm>
#include <cmath>

#include "transform/passes.h"
#include "transform/rules.h"

namespace tw::transform {
namespace {

bool turns(const Node& node) { return node.op == "reshape" || node.op == "transpose"; }
bool cuts(const Node& node) { return node.op == "slice" || node.op == "gather" || node.op == "expand"; }

class Scaler {
 public:
  Scaler(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "mul") leave_out(node);
    });
    for (const auto& [product, factor] : factors_) multiply(product, factor);
    const std::span<const Rule> moves[] = {movement_rules(), order_rules()};
    apply_to_all(editor_, moves);  // which meet where numbers were between them
    return editor_.finish();
  }

 private:
  void leave_out(const Node& mul) {
    for (const size_t k : {0, 1}) {
      const ValueId x = mul.inputs[k];
      const std::optional<double> factor = splat_of(editor_.value(mul.inputs[1 - k]));
      if (!factor || editor_.type(x) != editor_.type(mul.outputs[0]) || !is_only_moved(x)) continue;
      std::vector<int> products;
      if (!find_products(mul.outputs[0], products) || products.empty()) return;
      if (std::ranges::any_of(products, [&](int product) { return is_too_small(product, *factor); })) return;
      for (const int product : products) factors_.try_emplace(product, 1.0).first->second *= *factor;
      editor_.replace(mul.outputs[0], x);
      return;
    }
  }

  bool is_only_moved(ValueId x) const {
    const Node* node = editor_.producer(x);
    while (node != nullptr && (turns(*node) || node->op == "cast")) {
      x = node->inputs[0];
      node = editor_.producer(x);
    }
    return node != nullptr ? cuts(*node) || node->op == "update_slice" : editor_.is_input(x);
  }

  // Those that read this value behind nothing but moves, one that reads it twice twice. False where others read it,
  // too.
  bool find_products(ValueId id, std::vector<int>& products) const {
    if (editor_.use_count(id) != editor_.readers(id).size()) return false;  // it leaves the graph
    return std::ranges::all_of(editor_.readers(id), [&](int n) {
      const Node& node = editor_.node(static_cast<size_t>(n));
      if (node.op == "matmul" && editor_.type(node.outputs[0]).type.is_float()) return products.push_back(n), true;
      return (turns(node) || cuts(node)) && node.inputs[0] == id && find_products(node.outputs[0], products);
    });
  }

  bool is_too_small(int product, double factor) const {
    constexpr double kLeast = 1.0 / 32;  // of heads of up to 1,024 elements
    const auto found = factors_.find(product);
    const double all = factor * (found == factors_.end() ? 1 : found->second);
    return editor_.type(editor_.node(static_cast<size_t>(product)).outputs[0]).type == DataType::f16() &&
           std::abs(all) < kLeast;
  }

  void multiply(int product, double factor) {
    if (factor == 1) return;
    const Node node = editor_.node(static_cast<size_t>(product));
    const DataType type = editor_.type(node.outputs[0]).type;
    const ValueId number = editor_.add_constant(node.name + ".factor", {type, {}}, scalar_bytes(type, factor));
    const ValueId again = editor_.add(Node(node));
    editor_.replace(node.outputs[0], editor_.emit(node, "mul", {again, number}));
  }

  std::map<int, double> factors_;  // by the product's node
  Editor editor_;
};

}  // namespace

// On CPUs the copy that multiplies packs the operand, too. Rounded numbers are others.
graph::Graph scale_products(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu || context.precision == Precision::kStrict) return graph;
  return Scaler(graph, context.ops).run();
}

}  // namespace tw::transform
