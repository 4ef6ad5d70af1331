// Products of dequantized bytes are integer products with a factor behind them: with zeros a0, b0 and scales s, t,
//   sum over k of (a - a0) s (b - b0) t = s t sum over k of (a - a0) (b - b0),
// where s is one number, or one for each row, and t one number, or one for each column or output channel. The sum is
// exact in i32, so that the result is nearer to the model's definition than a sum of rounded products. What follows -
// bias, activation, quantization - is element by element, and becomes the product's epilogue as any other.
//
// What moves whole elements between a dequantization and a product moves bytes instead.
#include <limits>

#include "expr/word_product.h"
#include "transform/passes.h"
#include "transform/quantize/linear.h"
#include "transform/winograd_problem.h"

namespace tw::transform {
namespace {

constexpr int64_t kMaxProduct = 255 * 255;  // of two differences of bytes
constexpr int64_t kMaxSummed = std::numeric_limits<int32_t>::max() / kMaxProduct;

struct Operand {
  ValueId real;
  std::optional<Dequantization> from;
};

class Narrower {
 public:
  Narrower(const Graph& graph, const TransformContext& context)
      : editor_(graph, context.ops), context_(context), log_(context.log) {}

  Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "matmul" || node.op == "conv") narrow(node);
    });
    return editor_.finish();
  }

 private:
  using Rule = std::string_view;

  void narrow(const Node& node) {
    const Operand operands[2] = {operand(node.inputs[0]), operand(node.inputs[1])};
    if (!operands[0].from && !operands[1].from) return;
    const RuleResult rule = may_narrow(node, operands);
    if (log_ != nullptr) say(node, operands, rule);
    if (!rule.ok()) return;
    const Dequantization &a = *operands[0].from, &b = *operands[1].from;
    const ValueId y = node.op == "conv" ? convolve(node, a, b) : multiply(node, a, b);
    editor_.replace(node.outputs[0], y);
  }

  // ---- Operands.

  Operand operand(ValueId real) { return {real, dequantized(real)}; }

  // Also of what a dequantization is moved to.
  std::optional<Dequantization> dequantized(ValueId real) {
    if (auto direct = dequantization_of(editor_, real)) return direct;
    const Node* found = editor_.producer(real);
    const bool moves = found != nullptr && (found->op == "transpose" || found->op == "reshape" ||
                                            found->op == "slice" || found->op == "expand");
    if (!moves) return std::nullopt;
    const Node move = *found;
    std::optional<Dequantization> from = dequantized(move.inputs[0]);
    if (!from) return std::nullopt;
    const size_t rank = editor_.shape(from->numbers).size();
    for (ValueId* parameter : {&from->scale, &from->zero}) {
      if (*parameter == kAbsent || editor_.type(*parameter).elements() == 1) continue;
      if (move.op != "transpose" || editor_.shape(*parameter).size() != rank) return std::nullopt;
      *parameter = editor_.emit(move, move.op, {*parameter}, move.attrs);
    }
    from->numbers = editor_.emit(move, move.op, {from->numbers}, move.attrs);
    return from;
  }

  // ---- Rules.

  RuleResult may_narrow(const Node& node, const Operand (&operands)[2]) const {
    for (const Operand& o : operands) {
      if (!o.from)
        return because("float-operand", "{} has no QuantizeLinear and DequantizeLinear before it", described(o.real));
      const TensorType& numbers = editor_.type(o.from->numbers);
      if (numbers.type.bits() != 8)
        return because("width", "{} is dequantized from {}, and narrow products are of 8 bits", described(o.real),
                       tw::to_string(numbers.type));
    }
    if (node.op == "conv" && !has_words(node))
      return because("channels", "a group of {} has {} of its own: a word holds several of one group", node.name,
                     editor_.shape(node.inputs[1])[1] == 1 ? "one channel" : "an odd number of channels");
    if (node.op == "conv" && is_winograds(node, *operands[1].from))
      return because("winograd",
                     "Winograd's algorithm multiplies fewer floats, and pairs of bytes take as long as one");
    if (summed(node) > kMaxSummed)
      return because("range", "sums of {} products of bytes may leave i32, the most are {}", summed(node), kMaxSummed);
    for (const size_t k : {0, 1}) {
      for (const ValueId parameter : {operands[k].from->scale, operands[k].from->zero}) {
        if (parameter != kAbsent && !is_outside(node, k, parameter))
          return because("scales", "{} of {} vary along an axis that is summed, or one of batches",
                         parameter == operands[k].from->scale ? "scales" : "zero points", described(operands[k].real));
      }
    }
    return Rule("narrow");
  }

  bool has_words(const Node& conv) const {
    const int64_t each = editor_.shape(conv.inputs[1])[1];
    return each > 1 && (conv.int_attr_or("group", 1) == 1 || each % 2 == 0);
  }

  // Whether `conv` is faster as floats: where only pairs are summed, a pair of bytes takes the cycles of a float.
  bool is_winograds(const Node& conv, const Dequantization& weights) const {
    const TargetInfo& target = context_.target;
    if (sums_words(target, WordFormat::kQuads) || context_.precision == Precision::kStrict ||
        !cost::times_convolutions(target))
      return false;
    std::optional<cost::ConvProblem> problem = winograd_problem(editor_, conv, target);
    if (!problem) return false;
    problem->computed_weights = !editor_.value(weights.numbers).is_constant();
    return cost::best_algorithm(*problem, cost::WeightsHome::kSharedCache, target) != 0;
  }

  int64_t summed(const Node& node) const {
    if (node.op == "matmul") return editor_.shape(node.inputs[0]).back();
    const Shape& w = editor_.shape(node.inputs[1]);
    return w[0] == 0 ? 0 : num_elements(w) / w[0];
  }

  // Whether a parameter of operand k is one number, or one for each row, column or output channel.
  bool is_outside(const Node& node, size_t k, ValueId parameter) const {
    const Shape &shape = editor_.shape(parameter), &whole = editor_.shape(node.inputs[k]);
    const int64_t count = num_elements(shape);
    if (count == 1) return true;
    if (shape.size() != whole.size() || editor_.shape(node.inputs[0]).size() < 2 ||
        editor_.shape(node.inputs[1]).size() < 2)
      return false;
    if (node.op == "conv") return k == 1 && count == shape[0];
    return count == (k == 0 ? shape[shape.size() - 2] : shape.back());
  }

  std::string described(ValueId real) const {
    const Node* node = editor_.producer(real);
    const std::string& name = editor_.value(real).name;
    return node == nullptr ? fmt::format("operand {}", name) : fmt::format("operand {} ({})", name, node->op);
  }

  void say(const Node& node, const Operand (&operands)[2], const RuleResult& rule) {
    const auto type = [&](size_t k) { return tw::to_string(editor_.type(operands[k].from->numbers).type); };
    log_->say_product(
        node.name, rule.ok() ? because(*rule, "multiplies {} by {}, with sums in i32", type(0), type(1)) : rule.why());
  }

  // ---- The product.

  ValueId add(const Node& like, std::string op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return editor_.emit(like, std::move(op), std::move(inputs), std::move(attrs));
  }

  ValueId reshaped(const Node& like, ValueId value, Shape shape) {
    if (editor_.type(value).elements() == 1) shape = {};
    return editor_.shape(value) == shape ? value : add(like, "reshape", {value}, {{"shape", shape}});
  }

  ValueId as_f32(const Node& like, ValueId value) {
    return editor_.type(value).type == DataType::f32() ? value
                                                       : add(like, "cast", {value}, {{"to", std::string("f32")}});
  }

  // Operators with zero points as inputs 2 and 3, as vectors.
  ValueId sum(const Node& node, const std::string& op, const Dequantization& a, const Dequantization& b) {
    std::vector<ValueId> inputs{a.numbers, b.numbers};
    for (const Dequantization* d : {&a, &b}) {
      ValueId zero = d->zero;
      if (zero != kAbsent) {
        const DataType type = editor_.type(d->numbers).type;
        if (editor_.type(zero).type != type) zero = add(node, "cast", {zero}, {{"to", to_string(type)}});
        zero = reshaped(node, zero, {editor_.type(zero).elements()});
      }
      inputs.push_back(zero);
    }
    while (inputs.back() == kAbsent) inputs.pop_back();
    return add(node, op, std::move(inputs), node.op == "conv" ? node.attrs : Attrs());
  }

  // sums * s * t in f32; their shapes fit those of the sums.
  ValueId scaled(const Node& node, ValueId sums, ValueId s, ValueId t) {
    const ValueId scale = add(node, "mul", {as_f32(node, s), as_f32(node, t)});
    return add(node, "mul", {as_f32(node, sums), scale});
  }

  ValueId of_node_type(const Node& node, ValueId y) {
    const DataType type = editor_.type(node.outputs[0]).type;
    return type == DataType::f32() ? y : add(node, "cast", {y}, {{"to", to_string(type)}});
  }

  ValueId multiply(const Node& node, const Dequantization& a, const Dequantization& b) {
    const ValueId sums = sum(node, "matmul_integer", a, b);
    const Shape rows{editor_.type(a.scale).elements(), 1}, columns{editor_.type(b.scale).elements()};
    return of_node_type(node, scaled(node, sums, reshaped(node, a.scale, rows), reshaped(node, b.scale, columns)));
  }

  ValueId convolve(const Node& node, const Dequantization& x, const Dequantization& w) {
    const ValueId sums = sum(node, "conv_integer", x, w);
    Shape channels(editor_.shape(sums).size() - 1, 1);
    channels[0] = editor_.type(w.scale).elements();
    ValueId y = scaled(node, sums, reshaped(node, x.scale, {}), reshaped(node, w.scale, channels));
    if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
      channels[0] = editor_.type(node.inputs[2]).elements();
      y = add(node, "add", {y, reshaped(node, as_f32(node, node.inputs[2]), channels)});
    }
    return of_node_type(node, y);
  }

  Editor editor_;
  const TransformContext& context_;
  ReasonLog* log_;
};

}  // namespace

graph::Graph narrow_products(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind != DeviceKind::kCpu) return graph;
  return Narrower(graph, context).run();
}

}  // namespace tw::transform
