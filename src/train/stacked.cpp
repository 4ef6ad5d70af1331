#include "train/stacked.h"

#include "support/join.h"
#include "te/materialize.h"
#include "transform/rewrite/merge_products.h"
#include "transform/storage_order.h"

namespace tw::train {
namespace {

using graph::ValueId;
using transform::Editor;
using transform::MergedProduct;

const std::vector<int64_t> kTurned = {1, 0};
constexpr int64_t kAccessBytes = 64;  // a vector of the widest registers, two sectors of a GPU's memory

class ParameterStacks : public transform::OperandStacks {
 public:
  ParameterStacks(const std::set<std::string>& trained, const TrainOptions& options)
      : trained_(trained), options_(options) {}

  // A parameter that nothing else reads, as it is or transposed.
  bool takes(const Editor& editor, ValueId operand) const override {
    const ValueId parameter = parameter_of(editor, operand);
    const graph::Value& value = editor.value(parameter);
    return value.is_constant() && trained_.contains(value.name) && editor.use_count(operand) == 1 &&
           editor.use_count(parameter) == 1;
  }

  bool fit(const Editor& editor, const MergedProduct& a, const MergedProduct& b) const override {
    const bool is_biased = a.bias != graph::kAbsent;
    if (is_biased != (b.bias != graph::kAbsent) || decays(editor, a.weights) != decays(editor, b.weights)) return false;
    return !is_biased || decays(editor, a.bias) == decays(editor, b.bias);
  }

  // Stored column behind column, so that each parameter is what lies together.
  ValueId weights(Editor& editor, const std::string& name, const std::vector<MergedProduct>& products) override {
    int64_t columns = 0;
    for (const MergedProduct& p : products) columns += p.columns;
    const Shape shape = {columns, editor.shape(products[0].weights)[0]};
    const ValueId stack = put_together(editor, mapped(products, &MergedProduct::weights), shape);
    return editor.emit(name, "transpose", {stack}, {{"perm", kTurned}});
  }

  ValueId biases(Editor& editor, const std::string& /*name*/, const std::vector<MergedProduct>& products) override {
    int64_t columns = 0;
    for (const MergedProduct& p : products) columns += p.columns;
    return put_together(editor, mapped(products, &MergedProduct::bias), {columns});
  }

  std::vector<ParameterStack> take_stacks() { return std::move(stacks_); }

 private:
  static ValueId parameter_of(const Editor& editor, ValueId operand) {
    const graph::Node* turned = editor.producer(operand, "transpose");
    return turned != nullptr && turned->ints_attr("perm") == kTurned ? turned->inputs[0] : operand;
  }

  bool decays(const Editor& editor, ValueId operand) const {
    return !is_one_of(editor.value(parameter_of(editor, operand)).name, options_.not_decayed);
  }

  ValueId put_together(Editor& editor, const std::vector<ValueId>& operands, const Shape& shape) {
    ParameterStack stack;
    std::vector<std::byte> bytes;
    for (const ValueId operand : operands) {
      const ValueId parameter = parameter_of(editor, operand);
      const graph::Value& value = editor.value(parameter);
      const bool turns = shape.size() == 2 && parameter == operand;
      stack.parts.push_back({value.name, value.type.shape, turns ? kTurned : std::vector<int64_t>()});
      stack.name += (stack.name.empty() ? "" : "+") + value.name;
      append(bytes, te::materialize(*value.constant, static_cast<size_t>(value.type.type.bytes()), value.type.shape,
                                    turns ? transform::layout_of_order(kTurned) : Layout()));
    }
    const ValueId whole = editor.add_constant(stack.name, {editor.type(operands[0]).type, shape}, std::move(bytes));
    stack.name = editor.value(whole).name;
    stacks_.push_back(std::move(stack));
    return whole;
  }

  const std::set<std::string>& trained_;
  const TrainOptions& options_;
  std::vector<ParameterStack> stacks_;
};

}  // namespace

StackedGraph stack_parameters(const graph::Graph& graph, const graph::OpTable& ops,
                              const std::set<std::string>& trained, const TrainOptions& options) {
  if (options.products == Products::kApart || options.optimizer.method == Method::kLamb) return {graph, {}};
  ParameterStacks stacks(trained, options);
  graph::Graph merged = transform::merge_products_by(graph, ops, {.access_bytes = kAccessBytes}, stacks);
  std::vector<ParameterStack> made = stacks.take_stacks();
  if (made.empty()) return {graph, {}};
  return {std::move(merged), std::move(made)};
}

}  // namespace tw::train
