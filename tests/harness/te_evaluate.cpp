#include "tests/harness/te_evaluate.h"

#include "expr/elementary.h"
#include "support/error.h"
#include "tests/harness/lane_words.h"

namespace tw::te {
namespace {

// Floats of every type are computed in f64: evaluation is the reference that narrower results are measured against.
ScalarType computed_in(DataType type) { return type.is_float() ? ScalarType::kF64 : type.scalar(); }

Word zero(DataType type) { return type.is_float() ? float_word(0) : int_word(0); }

// Expressions compiled once per compute: names become slots, so that the element loop looks nothing up.
struct Node {
  Op op;
  DataType type;
  DataType operand;  // of args[0]
  Word constant;
  size_t slot = 0;                              // kVar
  const TensorValues* tensor = nullptr;         // kLoad
  std::string tensor_name;                      // kLoad, for messages
  double (*function)(const double*) = nullptr;  // kCall
  bool predicated = false;
  std::vector<Node> args;
};

class ComputeEvaluator {
 public:
  ComputeEvaluator(const Compute& compute, ValueMap& memory) : compute_(compute), memory_(memory) {
    Slots slots;
    for (const Axis& axis : compute.axes) slots.emplace(axis.name, slots.size());
    for (const Axis& axis : compute.reduce_axes) slots.emplace(axis.name, slots.size());
    values_.resize(slots.size() + 2 * compute.outputs.size());
    for (const Expr& e : compute.body) body_.push_back(compile(e, slots));
    if (!compute.is_reduction()) return;
    for (const Expr& e : compute.combiner.identity) identity_.push_back(compile(e, {}));
    if (compute.combiner.kind != CombinerKind::kTuple) return;
    Slots sides;
    for (const std::string& name : compute.combiner.lhs) sides.emplace(name, slots.size() + sides.size());
    for (const std::string& name : compute.combiner.rhs) sides.emplace(name, slots.size() + sides.size());
    for (const Expr& e : compute.combiner.result) result_.push_back(compile(e, sides));
  }

  void run() {
    std::vector<TensorValues*> outputs;
    std::vector<size_t> points;  // for each output, of the axes that it does not have
    for (const Tensor& output : compute_.outputs) {
      outputs.push_back(&memory_.at(output.name));
      const auto own = compute_.axes.begin() + static_cast<std::ptrdiff_t>(output.shape.size());
      points.push_back(static_cast<size_t>(num_points({own, compute_.axes.end()})));
    }
    size_t element = 0;
    over(compute_.axes, 0, 0, [&] {
      const std::vector<Word> values = element_values();
      for (size_t k = 0; k < values.size(); ++k) {
        const size_t at = element / points[k];
        if (outputs[k]->type.is_float())
          outputs[k]->floats[at] = values[k].f;
        else
          outputs[k]->ints[at] = values[k].i;
      }
      ++element;
    });
  }

 private:
  using Slots = std::map<std::string, size_t>;

  Node compile(const Expr& e, const Slots& slots) const {
    Node node{.op = e.op(),
              .type = e.type(),
              .operand = e->args.empty() ? e.type() : e.arg(0).type(),
              .constant = e.op() == Op::kFloatImm ? float_word(e->number) : int_word(e->value),
              .tensor_name = {},
              .predicated = e->predicated,
              .args = {}};
    TW_CHECK(!e.type().is_vector(), "vector expression {} in a tensor expression", to_string(e));
    for (const Expr& arg : e->args) node.args.push_back(compile(arg, slots));
    if (e.is_var()) {
      const auto it = slots.find(e->name);
      TW_CHECK(it != slots.end(), "compute '{}': unknown variable '{}'", compute_.name(), e->name);
      node.slot = it->second;
    } else if (e.op() == Op::kLoad) {
      node.tensor = &memory_.at(e->name);
      node.tensor_name = e->name;
    } else if (e.op() == Op::kCall) {
      const ElementaryFunction* function = find_elementary(e->name);
      TW_CHECK(function != nullptr, "unknown function '{}'", e->name);
      node.function = function->reference;
    }
    return node;
  }

  // Runs f for every point of axes[d..], the variables of which stand at slots first + d...
  template <typename F>
  void over(const std::vector<Axis>& axes, size_t first, size_t d, const F& f) {
    if (d == axes.size()) return f();
    for (int64_t i = 0; i < axes[d].extent; ++i) {
      values_[first + d].i = i;
      over(axes, first, d + 1, f);
    }
  }

  std::vector<Word> element_values() {
    std::vector<Word> totals(body_.size());
    if (!compute_.is_reduction()) {
      for (size_t k = 0; k < body_.size(); ++k) totals[k] = value(body_[k]);
      return totals;
    }
    for (size_t k = 0; k < body_.size(); ++k) totals[k] = value(identity_[k]);
    over(compute_.reduce_axes, compute_.axes.size(), 0, [&] { combine(totals); });
    return totals;
  }

  void combine(std::vector<Word>& totals) {
    if (compute_.combiner.kind != CombinerKind::kTuple) {
      for (size_t k = 0; k < body_.size(); ++k)
        totals[k] = binary(op_of(compute_.combiner.kind), body_[k].type, totals[k], value(body_[k]));
      return;
    }
    const size_t first = compute_.axes.size() + compute_.reduce_axes.size();
    const size_t count = body_.size();
    for (size_t k = 0; k < count; ++k) {
      values_[first + count + k] = value(body_[k]);
      values_[first + k] = totals[k];
    }
    for (size_t k = 0; k < count; ++k) totals[k] = value(result_[k]);
  }

  Word value(const Node& n) const {
    switch (n.op) {
      case Op::kIntImm:
      case Op::kFloatImm:
        return n.constant;
      case Op::kVar:
        return values_[n.slot];
      case Op::kSelect:
        return value(n.args[0]).i ? value(n.args[1]) : value(n.args[2]);
      case Op::kCast:
        return apply_cast(computed_in(n.type), computed_in(n.operand), value(n.args[0]));
      case Op::kBitcast:
        return apply_bitcast(n.type.scalar(), n.operand.scalar(), value(n.args[0]));
      case Op::kFma:
        return apply_fma(computed_in(n.type), value(n.args[0]), value(n.args[1]), value(n.args[2]));
      case Op::kCall:
        return call_value(n);
      case Op::kLoad:
        return load_value(n);
      default:
        break;
    }
    if (n.args.size() == 1) return apply_unary(n.op, computed_in(n.operand), value(n.args[0]));
    TW_CHECK(n.args.size() == 2, "operator {} in a tensor expression", static_cast<int>(n.op));
    return binary(n.op, n.operand, value(n.args[0]), value(n.args[1]));
  }

  Word binary(Op op, DataType operand, Word a, Word b) const {
    const char* reason = undefined_reason(op, operand.scalar(), b);
    TW_CHECK(reason == nullptr, "compute '{}': {}", compute_.name(), reason);
    return apply_binary(op, computed_in(operand), a, b);
  }

  Word call_value(const Node& n) const {
    Word args[kMostOperands];
    for (size_t k = 0; k < n.args.size(); ++k) args[k] = value(n.args[k]);
    return apply_call(computed_in(n.type), n.function, args, n.args.size());
  }

  Word load_value(const Node& n) const {
    const Shape& shape = n.tensor->shape;
    if (n.predicated && !value(n.args[shape.size()]).i) return zero(n.type);
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t i = value(n.args[d]).i;
      TW_CHECK(i >= 0 && i < shape[d], "compute '{}' reads '{}' of shape {} at index {} of dim {}", compute_.name(),
               n.tensor_name, to_string(shape), i, d);
      offset = offset * shape[d] + i;
    }
    return n.type.is_float() ? float_word(n.tensor->floats[offset]) : int_word(n.tensor->ints[offset]);
  }

  const Compute& compute_;
  ValueMap& memory_;
  std::vector<Word> values_;
  std::vector<Node> body_, identity_, result_;
};

}  // namespace

TensorValues zeros(DataType type, const Shape& shape) {
  TensorValues out{type, shape, {}, {}};
  const auto count = static_cast<size_t>(num_elements(shape));
  if (type.is_float())
    out.floats.assign(count, 0.0);
  else
    out.ints.assign(count, 0);
  return out;
}

ValueMap evaluate(const Program& program, const ValueMap& inputs) {
  ValueMap memory;
  for (const Tensor& input : program.inputs) {
    const auto it = inputs.find(input.name);
    TW_CHECK(it != inputs.end(), "no value for input '{}'", input.name);
    const TensorValues& values = it->second;
    const size_t count = input.type.is_float() ? values.floats.size() : values.ints.size();
    TW_CHECK(values.type == input.type && values.shape == input.shape &&
                 count == static_cast<size_t>(num_elements(input.shape)),
             "input '{}' is {}{}, given {}{} with {} elements", input.name, to_string(input.type),
             to_string(input.shape), to_string(values.type), to_string(values.shape), count);
    memory.emplace(input.name, values);
  }
  for (const Compute& compute : program.computes) {
    for (const Tensor& output : compute.outputs) memory.emplace(output.name, zeros(output.type, output.shape));
    ComputeEvaluator(compute, memory).run();
  }
  return memory;
}

}  // namespace tw::te
